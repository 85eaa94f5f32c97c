"""record(fact): the one place where a fact becomes rows, an event, a log line and a notification. Durable before visible.

Owns the mapping and nothing else. Whoever awaits `record` goes on only after the commit; watchers hear of it after the
commit too, because the writer publishes what it has committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from db.rows.executions import Place, event
from db.store.unit import Ticket, Write
from db.store.writer import Writer
from runner.errors import Fenced
from runner.record.events import Bus
from runner.record.facts import Fact
from runner.record.streaming import Speech

log = logging.getLogger("outrider.events")


def _write_of(fact: Fact | Write) -> Write:
    return fact if isinstance(fact, Write) else fact.write()


def _line(event: Mapping[str, Any]) -> str:
    """An event as one line of JSON, its payload in it as it is."""
    head = to_json({name: value for name, value in event.items() if name != "payload"}).decode()
    return f'{head[:-1]},"payload":{event["payload"]}}}'


class Recorder:
    """Turns facts into writes; publishes what is committed."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._writer: Writer | None = None
        self.speech = Speech(bus)
        """What models are saying at the moment."""

    def attach(self, writer: Writer) -> None:
        """Write through `writer` from now on."""
        self._writer = writer

    async def record(self, fact: Fact | Write, *, shielded: bool = False, patient: bool = True) -> Ticket:
        """Commit what `fact` means; `held` on the answer tells whether its guards held.

        `shielded` where something must follow the commit even if the caller is being cancelled, not `patient` where
        somebody outside waits: while the database is in trouble it raises DatabaseUnavailable.
        """
        assert self._writer is not None
        return await self._writer.apply(_write_of(fact), shielded=shielded, patient=patient)

    def record_nowait(self, fact: Fact | Write) -> Ticket:
        """As `record`, without waiting: for facts nothing depends on yet. Order is kept."""
        assert self._writer is not None
        return self._writer.post(_write_of(fact))

    async def record_fenced(self, fact: Fact | Write, execution: str, *, shielded: bool = False) -> Ticket:
        """As `record`; raises Fenced when the guards did not hold: another process owns the execution by now."""
        ticket = await self.record(fact, shielded=shielded)
        if not ticket.held:
            raise Fenced(execution)
        return ticket

    def publish(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Committed events reach the log and the watchers. Called by the writer, in the event loop."""
        if log.isEnabledFor(logging.INFO):
            for each in events:
                log.info("%s", _line(each))
        if self.speech:  # what was said before something happened is told before it
            for each in events:
                self.speech.tell(each["execution_id"])
        self._bus.publish(events)

    def publish_unstored(self, place: Place, kind: str, payload: Mapping[str, Any]) -> None:
        """Tell watchers something that is not stored, such as the current action."""
        if self._bus.watched(place.root_execution_id):
            self._bus.publish_unstored({**event(place, kind, payload), "seq": None})
