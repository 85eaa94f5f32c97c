"""What models are saying at the moment, for whoever watches: many small pieces of text become few events.

Owns the gathering, and that each text which began also ends, however it ends. Nothing of it is stored: the finished text is
in its row. While nobody watches, a piece costs a look at the watchers and an addition.
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
"""How long pieces are gathered: soon enough to be read along, seldom enough for a thousand models."""
GATHER_CHARACTERS = 4_000
"""Text that is told at once, so that no event grows large."""


@dataclass(slots=True)
class _Stretch:
    """Pieces of one text that follow each other."""

    voice: Voice
    offset: int
    pieces: list[str] = field(default_factory=list)
    length: int = 0


class Speech:
    """The texts that are being streamed in this process."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stretches: dict[str, _Stretch] = {}
        self._begun = anyio.Event()

    def __bool__(self) -> bool:
        """Whether anything was gathered and not told."""
        return bool(self._stretches)

    def watched(self, place: Place) -> bool:
        """Whether anybody would hear it."""
        return self._bus.watched(place.root_execution_id)

    def gather(self, voice: Voice, piece: str) -> None:
        """Keep a piece until it is told together with those that follow it."""
        stretch = self._stretches.get(voice.place.id)
        if stretch is None:
            stretch = self._stretches[voice.place.id] = _Stretch(voice, voice.said)
            self._begun.set()
        stretch.pieces.append(piece)
        stretch.length += len(piece)
        if stretch.length >= GATHER_CHARACTERS:
            self.tell(voice.place.id)

    def tell(self, execution: str) -> None:
        """Tell what an execution's model has said since the last time, if anything."""
        stretch = self._stretches.pop(execution, None)
        if stretch is not None:
            voice = stretch.voice
            payload = {"timeline_event_id": voice.id, "attempt": voice.attempt, "offset": stretch.offset}
            self.publish_unstored(voice.place, "stream.chunk", {**payload, "text": "".join(stretch.pieces)})

    def publish_unstored(self, place: Place, kind: str, payload: Mapping[str, Any]) -> None:
        """Tell watchers something that is not stored."""
        self._bus.publish_unstored({**event(place, kind, payload), "seq": None})

    async def tell_in_time(self) -> None:
        """Tell what was gathered before it is old: one timer for all models of the process. Runs until it is cancelled."""
        while True:
            await self._begun.wait()
            await anyio.sleep(GATHER_SECONDS)
            self._begun = anyio.Event()
            for execution in tuple(self._stretches):
                self.tell(execution)


class Voice:
    """The model of one execution, heard text by text. A text is a `with` block; leaving it by an error ends it too.

    Watchers hear at once that a text begins. What is stored tells both, its beginning and its end, when it is over:
    `ended_early` stores those of a text without an answer. So no stored end lacks its beginning, also after a crash.
    """

    __slots__ = ("_ended_early", "_speech", "attempt", "id", "place", "said")

    def __init__(self, speech: Speech, place: Place, ended_early: Callable[[str, str], None]) -> None:
        self._speech, self.place, self._ended_early = speech, place, ended_early
        self.id, self.attempt, self.said = "", 1, 0

    def __enter__(self) -> None:
        self.id, self.attempt, self.said = new_id(), 1, 0
        if self._speech.watched(self.place):
            self._speech.publish_unstored(self.place, "timeline_event.created", {"kind": "model", "id": self.id})

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.break_off("cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else "failed")

    def kept(self) -> None:
        """The text is stored, and has ended with the event of its row."""
        self.id = ""

    def break_off(self, status: str) -> None:
        """The text ends here, unfinished: `failed` or `cancelled`. One that is kept has ended already."""
        if self.id:
            self._speech.tell(self.place.id)
            self._ended_early(self.id, status)
            self.id = ""

    def again(self, attempt: int) -> None:
        """The model is asked once more: what it said before is void."""
        self._speech.tell(self.place.id)
        self.attempt, self.said = attempt, 0

    def heard(self, piece: str) -> None:
        """It said something more."""
        if self._speech.watched(self.place):
            self._speech.gather(self, piece)
        self.said += len(piece)
