"""The track of one execution: how far its replay has come in its recording, and what comes next.

Owns the position in the recorded transcript and the pace: a delivery is shown where the recording showed it, so that
another order of ends makes no difference. Must not know: strategies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio

from db.rows.executions import Place
from db.store.unit import Ticket, Write
from runner.core.inbox import Inbox, Item
from runner.messages import ToolCall
from runner.prompt.deliveries import BLOCKS, REPORT
from runner.record import turn_facts
from runner.record.facts import Fact
from runner.record.recorder import Recorder
from runner.replay.recording import RecordedCall, RecordedDelivery, RecordedMessage, Recording
from runner.snapshot import DISPATCH
from runner.tools.builtin import SERVER
from runner.tools.dispatch import CANCEL

if TYPE_CHECKING:
    from runner.core.execution import Execution

LOOPS = ("loop", "synthesis")
"""The strategies that ask a model themselves."""
STOPPED = ("cancelled", "timed_out")
"""The statuses of executions that were stopped before they had come to an end."""

LOOK_SECONDS = 0.002
"""Between looks at a condition that others make true."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; a replay that stands still is ended from outside."""
    while not condition():  # noqa: ASYNC110 - true by many changes, which nothing announces
        await anyio.sleep(LOOK_SECONDS)


class Track:
    """One execution of a replay."""

    def __init__(self, recording: Recording, tracks: Mapping[str, Track], execution: Execution) -> None:
        recorded = recording.by_id[execution.id]
        self.recording, self.recorded, self.execution, self.tracks = recording, recorded, execution, tracks
        self.spawns = recording.children.get(recorded.id, ())
        """Its recorded children."""
        self.position = 1 if recorded.messages else 0
        """The number of stored messages; the first is stored with the row."""
        self.spawned: set[str] = set()
        """The children that were spawned."""
        self.stands = False
        """Whether nothing more happens until it is stopped."""
        self._calls = {call.call_id: call for call in recorded.all_calls}
        self.inbox = PacedInbox(self, execution.limits.wake == "any")

    @property
    def next(self) -> RecordedMessage | None:
        """The recorded message that comes next; None beyond the end."""
        messages = self.recorded.messages
        return messages[self.position] if self.position < len(messages) else None

    def call(self, call: ToolCall) -> RecordedCall | None:
        """The recorded call of a call."""
        return self._calls.get(call.id)

    @property
    def due(self) -> Sequence[RecordedDelivery] | None:
        """The recorded deliveries that the next message shows, in its order; None if it shows none."""
        message = self.next
        if message is None or message.kind != "delivery":
            return None
        left = [each for each in self.recorded.deliveries if each.consumed_by == message.id]
        return [each for kind, *of in (message.data or {}).get(BLOCKS, ()) if (each := _taken(left, kind, of)) is not None]

    def saw(self, fact: Fact | Write) -> None:
        """Move on with a stored fact."""
        match fact:
            case turn_facts.Replied(message=message) | turn_facts.Said(message=message):
                self.position = message.position + 1
            case turn_facts.RepliedLate(reply=reply):
                self.position = reply.message.position + 1
            case turn_facts.BeganAgain(first=first):
                self.position = first.position + 1

    def took(self, child: str) -> None:
        """Give an ended child its recorded duration, which some prompts show."""
        ended, recorded = self.execution.children.ended, self.recording.by_id.get(child)
        if child in ended and recorded is not None and recorded.seconds is not None:
            ended[child] = replace(ended[child], elapsed=recorded.seconds)

    @property
    def caught_up(self) -> bool:
        """Whether its children have come as far as when the recording went on: they were spawned and let start."""
        message = self.next
        if message is None:
            return True
        alive = self.execution.children.alive
        for child in self.spawns:
            if child.created_at < message.created_at and child.id not in self.spawned:
                return False
            live = alive.get(child.id)
            if live is not None and live.gate is not None and live.gate.is_closed:
                begun = child.messages[0].created_at if child.messages else None
                if begun is not None and begun < message.created_at:
                    return False
        return True

    @cached_property
    def ran(self) -> frozenset[str]:
        """The calls that counted as tool calls: as many as the recording counted, those with an answer first."""
        live = self.recorded.tool_call_count - sum(_is_counted(call) for call in self._calls.values())
        others = [call for call in self._calls.values() if not _is_counted(call) and call.error_type != "cancelled"]
        likely = sorted(others, key=lambda call: (call.server == SERVER, call.is_error, call.error_type != "tool_error"))
        return frozenset(call.id for call in likely[: max(0, live)])


def _is_counted(call: RecordedCall) -> bool:
    """Whether the call is carried out again and counts by itself."""
    return call.server == SERVER and call.tool in (DISPATCH, CANCEL) and not call.is_error


def _taken(left: list[RecordedDelivery], kind: str, of: Sequence[str]) -> RecordedDelivery | None:
    wanted = "result" if kind == REPORT else kind
    for each in left:
        if each.kind == wanted and (not of or each.child_execution_id == of[0]):
            left.remove(each)
            return each
    return None


class PacedInbox(Inbox):
    """An inbox that shows each delivery where the recording showed it, and not before."""

    __slots__ = ("_shown", "_track")

    def __init__(self, track: Track, wake_on_any: bool) -> None:
        super().__init__(wake_on_any)
        self._track = track
        self._shown: list[Item] = []
        """The deliveries that were shown and not taken yet."""

    def put(self, item: Item) -> None:
        """Add a delivery; a child took as long as it had."""
        if item.result is not None:
            self._track.took(item.result.execution_id)
        super().put(item)

    def missing(self) -> list[RecordedDelivery]:
        """The due deliveries that have not arrived."""
        return [each for each in self._track.due or () if self._item(each) is None]

    def _item(self, recorded: RecordedDelivery) -> Item | None:
        item = self._items.get(recorded.id)
        if item is None and recorded.kind == "wrap_up":  # its id is another one each time
            item = next((each for each in self._items.values() if each.kind == "wrap_up"), None)
        return item

    @property
    def waiting(self) -> list[Item]:
        """The due deliveries, once all have arrived; beyond the recording whatever arrives."""
        if self._shown:
            return list(self._shown)
        if self._track.next is None:
            return super().waiting
        items = [self._item(each) for each in self._track.due or ()]
        found = [each for each in items if each is not None]
        if found and len(found) == len(items) and self._track.caught_up:
            self._shown = found
        return list(self._shown)

    def took(self, *ids: str) -> None:
        """Remove consumed deliveries."""
        super().took(*ids)
        self._shown = [each for each in self._shown if each.id in self._items]

    @property
    def arrived(self) -> int:
        """The number of due deliveries."""
        return len(self.waiting)

    @property
    def spoken(self) -> int:
        """The number of due messages."""
        return sum(item.kind == "message" for item in self.waiting)

    @property
    def pending(self) -> int:
        """The number of children whose ends are neither due nor read."""
        return len(self._open) + len(self._hidden())

    def _hidden(self) -> set[str]:
        shown = {item.id for item in self.waiting}
        return {
            item.result.execution_id for item in self._items.values() if item.result is not None and item.id not in shown
        }

    @property
    def ready(self) -> bool:
        """Whether the recorded delivery is due."""
        return bool(self.waiting) or not self.pending

    def any_open(self, children: Any) -> bool:
        """Whether one of these children is open, or its end not due."""
        return not (self._open | self._hidden()).isdisjoint(children)

    async def until_ended(self, children: Any, *, one: bool = False) -> None:
        """Wait until a delivery is due, or none of these is open."""
        asked = list(children)
        await self._until(lambda: bool(self.waiting) or not self.any_open(asked))

    async def _until(self, come: Callable[[], bool]) -> None:
        await until(come)


class TrackingRecorder(Recorder):
    """Tells a track what is stored."""

    def __init__(self, recorder: Recorder, tracks: Mapping[str, Track]) -> None:
        super().__init__(recorder._bus)
        self._writer, self.streams = recorder._writer, recorder.streams
        self._tracks = tracks

    async def record(self, fact: Fact | Write, *, shielded: bool = False, patient: bool = True) -> Ticket:
        """As the recorder does; the track moves on with the commit."""
        ticket = await super().record(fact, shielded=shielded, patient=patient)
        place: Place | None = getattr(fact, "place", None) or getattr(getattr(fact, "reply", None), "place", None)
        track = self._tracks.get(place.id) if place is not None else None
        if ticket.held and track is not None:
            track.saw(fact)
        return ticket


async def until_at_rest(tracks: Mapping[str, Track], recording: Recording, top: str) -> None:
    """Wait until a subtree has come as far as its recording: each execution of it has ended, stands or was not started."""
    below = [each for each in recording.below(top) if each.started_at is not None]
    await until(lambda: all(_rests(tracks.get(each.id)) for each in below))


def _rests(track: Track | None) -> bool:
    if track is None:
        return False
    waits = track.recorded.strategy not in LOOPS and (track.next is None or track.recorded.status in STOPPED)
    return track.execution.done.is_set or track.stands or waits
