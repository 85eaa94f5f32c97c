"""Resumption: how an execution goes on that another process began, or that continues one that has ended.

Owns the order, top-down: what it had used → what it knew → its open children, in its own group → its strategy. It needs no
mechanism of its own: rows say how far the work had come, and strategies begin where their rows end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from db.rows.adoption import had_waited
from db.rows.reads import Record
from registry import AgentSpec, Limits, UnknownName
from runner.core import facts
from runner.core.ending import Cause, End
from runner.core.history import Legacy, Past, read_past
from runner.core.inbox import Item
from runner.core.spawn import SpawnRequest
from runner.core.views import child_of_row
from runner.errors import Fenced, Interrupted, Refusal
from runner.strategies.requests import again

if TYPE_CHECKING:
    from runner.core.execution import Execution
    from runner.core.services import Habitat


@dataclass(frozen=True, slots=True)
class Heritage:
    """What an execution is made from that another process began."""

    row: Record
    legacy: Legacy
    """What its tree had used."""
    unfit: str | None = None
    """Why it cannot go on, if it cannot."""


class Resumption:
    """The way of one execution from its rows into the present."""

    __slots__ = ("_heritage", "_of")

    def __init__(self, execution: Execution, heritage: Heritage | None) -> None:
        self._of = execution
        self._heritage = heritage
        """None for one that continues another: it is new, and only knows what that one knew."""

    @property
    def needs_slot(self) -> bool:
        """Whether it is to work: what was asked to stop before it was adopted only comes to its end."""
        return self._heritage is None or self._heritage.row["cancel_requested_at"] is None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Its turn to come back from its rows; whoever only continues another does not queue with those."""
        if self._heritage is None:
            yield
            return
        slot = self._of.tree.returning[len(self._of.path)].reserve()
        try:
            if slot.queue_position:
                await slot.wait()
            yield
        finally:
            slot.release()

    async def start(self) -> None:
        """What it had used it has used; the time in which nobody ran it does not count."""
        execution, heritage = self._of, self._heritage
        if heritage is None:
            return
        await heritage.legacy.read(execution.services.database.reads)
        execution.allowance.remember(*heritage.legacy.spent(heritage.row))
        execution.born_at -= heritage.legacy.lived(heritage.row)
        left = heritage.legacy.remaining(heritage.row)
        if left is not None and heritage.row["cancel_requested_at"] is None:  # what is asked to stop does not go on
            execution.allowance.go_on(left, heritage.legacy.allowed(heritage.row))
            deadline = heritage.row["deadline_at"] if heritage.legacy.stands(heritage.row) else execution.deadline()
            fact = facts.WentOn(execution.place, execution.name, execution.attempt, deadline)
            if not (await execution.services.recorder.record(fact)).held:
                await self._look_again(heritage)
        if heritage.unfit is not None:
            raise Interrupted(heritage.unfit)

    async def _look_again(self, heritage: Heritage) -> None:
        """It may not go on: somebody else has it, or it was asked to stop since its row was read."""
        row = await self._of.services.database.reads.execution(self._of.id)
        if row is None or row["attempt"] != self._of.attempt or row["cancel_requested_at"] is None:
            raise Fenced(self._of.id)
        self._heritage = replace(heritage, row=row)

    async def recall(self) -> End | None:
        """Know from rows how far it had come; its end, if it is not to go on."""
        execution, row = self._of, self._heritage.row if self._heritage is not None else None
        assert execution.strategy is not None
        assert execution.work is not None
        past = await read_past(execution.services.database.reads, execution.id, execution.request.continues)
        past = replace(past, waited=row is not None and had_waited(row))
        ended = (child for child in past.children if child["finished_at"] is not None)
        execution.ended.update({child["id"]: child_of_row(child) for child in ended})
        own = (child["position"] for child in past.children if child["parent_execution_id"] == execution.id)
        execution.born = max(own, default=0)
        execution.keys = {child["idempotency_key"]: child["id"] for child in past.children if child["idempotency_key"]}
        execution.work.prompt = past.prompt
        if execution.request.continues is None:
            execution.request = replace(execution.request, prompt=past.prompt)  # another attempt begins with it
        execution.strategy.recall(past)
        if execution.attempts is not None:
            execution.attempts.recall(past)
        for item in (*past.unread(), *await self._inherit(past)):
            execution.inbox.put(item)
        if row is None:
            return None
        if row["cancel_requested_at"] is not None:
            return Cause("user", row["cancelled_by"] or "", row["cancel_reason"] or "")
        if row["started_at"] is not None and execution.request.agent.on_restart == "fail":
            return Interrupted("it is not to be resumed")
        return None

    async def _inherit(self, past: Past) -> Sequence[Item]:
        """The ends that whoever it continues had not read are its own to read; another that continues it has them, too."""
        execution, items = self._of, past.unheard()
        if items:
            children = [item.result.execution_id for item in items if item.result is not None]
            fact = facts.PassedOn(execution.place, execution.attempt, children)
            await execution.services.recorder.record_fenced(fact, execution.id, shielded=True)
        return items

    def restart_children(self) -> None:
        """Those of its children that had not ended go on in its own group, once, before it does itself."""
        execution, heritage, self._heritage = self._of, self._heritage, None
        if heritage is not None and execution.group is not None:
            for row in heritage.legacy.open_children(heritage.row):
                execution.adopt(inherit(execution.habitat, row, heritage.legacy, execution))


def inherit(
    habitat: Habitat, row: Record, legacy: Legacy, parent: Execution | None = None, unfit: str | None = None
) -> Execution:
    """An execution made from its row, ready to run. One that cannot go on, such as an agent that is no more, says why."""
    from runner.core.execution import Execution

    request = SpawnRequest(AgentSpec(name=row["agent"]), row["task"] or "", Limits())
    if unfit is None:
        try:
            above = parent.request if parent is not None else None
            request = again(habitat.services.settings, row, above, legacy.user)
        except (UnknownName, Refusal) as error:
            unfit = f"it cannot be resumed: {error}"
    return Execution(habitat, request, parent, Heritage(row, legacy, unfit))
