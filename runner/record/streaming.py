"""Streaming: text of models for watchers, while it is generated. Many small pieces become few events.

Owns the batching, and that every started text also ends. No piece is stored: the finished text is in its row. Without a
watcher, a piece costs one lookup and one addition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import anyio

from db.ids import new_id
from db.rows.executions import Place, event
from runner.record.events import Bus

GATHER_SECONDS = 0.1
"""Batching interval: short enough to read along, long enough for a thousand models."""
GATHER_CHARACTERS = 4_000
"""A batch of this size is sent immediately, so that no event grows large."""


@dataclass(slots=True)
class _Stretch:
    """Consecutive pieces of one text."""

    voice: TextStream
    offset: int
    pieces: list[str] = field(default_factory=list)
    length: int = 0


class TextStreams:
    """The texts that are being streamed in this process."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stretches: dict[str, _Stretch] = {}
        self._begun = anyio.Event()

    def __bool__(self) -> bool:
        """Whether there are unsent pieces."""
        return bool(self._stretches)

    def watched(self, place: Place) -> bool:
        """Whether the tree has a watcher."""
        return self._bus.watched(place.root_execution_id)

    def gather(self, voice: TextStream, piece: str) -> None:
        """Add a piece to the batch of its text."""
        stretch = self._stretches.get(voice.place.id)
        if stretch is None:
            stretch = self._stretches[voice.place.id] = _Stretch(voice, voice.said)
            self._begun.set()
        stretch.pieces.append(piece)
        stretch.length += len(piece)
        if stretch.length >= GATHER_CHARACTERS:
            self.tell(voice.place.id)

    def tell(self, execution: str) -> None:
        """Send the batch of an execution, if it has one."""
        stretch = self._stretches.pop(execution, None)
        if stretch is not None:
            voice = stretch.voice
            payload = {"timeline_event_id": voice.id, "attempt": voice.attempt, "offset": stretch.offset}
            self.publish_unstored(voice.place, "stream.chunk", {**payload, "text": "".join(stretch.pieces)})

    def publish_unstored(self, place: Place, kind: str, payload: Mapping[str, Any]) -> None:
        """Send watchers an event that is not stored."""
        self._bus.publish_unstored({**event(place, kind, payload), "seq": None})

    async def tell_in_time(self) -> None:
        """Send all batches at the batching interval: one timer per process. Runs until it is cancelled."""
        while True:
            await self._begun.wait()
            await anyio.sleep(GATHER_SECONDS)
            self._begun = anyio.Event()
            for execution in tuple(self._stretches):
                self.tell(execution)


class TextStream:
    """The text stream of one execution's model. A text is a `with` block; an exception ends it too.

    Watchers see immediately that a text begins. Rows get its beginning and end together, when it is over; `ended_early`
    stores them for a text without a reply. So no stored end lacks its beginning, even after a crash.
    """

    __slots__ = ("_ended_early", "_speech", "attempt", "id", "place", "said")

    def __init__(self, streams: TextStreams, place: Place, ended_early: Callable[[str, str], None]) -> None:
        self._speech, self.place, self._ended_early = streams, place, ended_early
        self.id, self.attempt, self.said = "", 1, 0

    def __enter__(self) -> None:
        self.id, self.attempt, self.said = new_id(), 1, 0
        if self._speech.watched(self.place):
            self._speech.publish_unstored(self.place, "timeline_event.created", {"kind": "model", "id": self.id})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.break_off("cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else "failed")

    def kept(self) -> None:
        """Note that the text is stored: the event of its row ends it."""
        self.id = ""

    def break_off(self, status: str) -> None:
        """End an unfinished text as `failed` or `cancelled`; no effect on a stored text."""
        if self.id:
            self._speech.tell(self.place.id)
            self._ended_early(self.id, status)
            self.id = ""

    def again(self, attempt: int) -> None:
        """Start a retry of the model call: the text so far is void."""
        self._speech.tell(self.place.id)
        self.attempt, self.said = attempt, 0

    def heard(self, piece: str) -> None:
        """Add a piece of text."""
        if self._speech.watched(self.place):
            self._speech.gather(self, piece)
        self.said += len(piece)
