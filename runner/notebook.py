"""The notebook of an execution without a model: what was delivered to it is written down, and by that consumed."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import to_json

from db.ids import new_id
from db.rows.transcript import MessageDraft
from runner import turn_facts
from runner.delivery import delivery_message
from runner.inbox import Item
from runner.past import Past
from runner.transcript import clean
from runner.work import Work


class Notebook:
    """The messages of an execution after its first."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._position = 1

    def recall(self, past: Past) -> None:
        """Go on after what was written."""
        self._position = max((row["position"] for row in past.own.messages), default=0) + 1

    async def read(self) -> Sequence[Item]:
        """Take everything that arrived out of the inbox, in the transaction that writes it down."""
        work, items = self._work, self._work.inbox.waiting
        if not items:
            return items
        message = delivery_message(items, work.inbox.pending)
        content = clean(to_json(message.content).decode())
        draft = MessageDraft(new_id(), work.place.id, self._position, message.role, message.kind, content)
        consumed = [item.id for item in items]
        fact = turn_facts.Said(work.place, work.attempt, draft, consumed)
        await work.recorder.record_fenced(fact, work.place.id, shielded=True)
        self._position += 1
        work.inbox.took(*consumed)
        return items
