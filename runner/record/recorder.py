"""record(fact): the one place where a fact becomes rows, events, log lines and notifications. Durable before visible.

`record` returns only after the commit. Watchers are notified after the commit too, because the writer publishes only
committed events.
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
from runner.record.streaming import TextStreams

log = logging.getLogger("outrider.events")


def _write_of(fact: Fact | Write) -> Write:
    return fact if isinstance(fact, Write) else fact.write()


def _line(event: Mapping[str, Any]) -> str:
    """An event as one line of JSON; its payload is JSON already."""
    head = to_json({name: value for name, value in event.items() if name != "payload"}).decode()
    return f'{head[:-1]},"payload":{event["payload"]}}}'


class Recorder:
    """Turns facts into writes and publishes committed events."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._writer: Writer | None = None
        self.streams = TextStreams(bus)
        """The text streams of models."""

    def attach(self, writer: Writer) -> None:
        """Write through `writer` from now on."""
        self._writer = writer

    async def record(self, fact: Fact | Write, *, shielded: bool = False, patient: bool = True) -> Ticket:
        """Commit a fact; the ticket says whether its guards held.

        Pass `shielded` where a step must follow the commit even if the caller is being cancelled. Pass `patient=False`
        where an outside caller waits: it raises DatabaseUnavailable during an outage instead of waiting.
        """
        assert self._writer is not None
        return await self._writer.apply(_write_of(fact), shielded=shielded, patient=patient)

    def record_nowait(self, fact: Fact | Write) -> Ticket:
        """As `record`, without waiting, for facts no step depends on. Order is kept."""
        assert self._writer is not None
        return self._writer.post(_write_of(fact))

    async def record_fenced(self, fact: Fact | Write, execution: str, *, shielded: bool = False) -> Ticket:
        """As `record`; raises Fenced when the guards did not hold: another process owns the execution."""
        ticket = await self.record(fact, shielded=shielded)
        if not ticket.held:
            raise Fenced(execution)
        return ticket

    def publish(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Log committed events and send them to watchers. Called by the writer, in the event loop."""
        if log.isEnabledFor(logging.INFO):
            for each in events:
                log.info("%s", _line(each))
        if self.streams:  # text streamed before an event is published before it
            for each in events:
                self.streams.tell(each["execution_id"])
        self._bus.publish(events)

    def publish_unstored(self, place: Place, kind: str, payload: Mapping[str, Any]) -> None:
        """Send watchers an event that is not stored, such as the current action."""
        if self._bus.watched(place.root_execution_id):
            self._bus.publish_unstored({**event(place, kind, payload), "seq": None})
