"""What one kind of listener hears: the events of a tree, of a part of it, or of every tree a principal may see.

Owns the recent events of a topic, encoded once for all its listeners, and the border to the older ones, which are in rows.
Must not know: sockets, or where events come from. Invariants: an event after `floor` is held here, an event up to it is in
rows, so a listener that reads both misses nothing; a topic holds a bounded number of events and of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import anyio
from pydantic_core import from_json, to_json

from db.rows.stored_events import EventRange, StoredEvents
from db.status import ExecutionStatus

HELD, HELD_BYTES = 4_000, 4_000_000
"""What a topic holds when it has let go of older events, at twice as much; a listener that is further behind reads rows."""
AT_ONCE = 128 * 1024
"""The bytes of a page end with the event that reaches this number: a listener that does not read holds one page."""
PAGE = 500
PAGES_HELD = 8
"""Pages of rows that listeners share: many return at once after a restart."""

STATUS = "execution.status"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a listener wants to hear. Without a root: every tree of the principal, or of all."""

    root: str | None = None
    top: str | None = None
    principal: str | None = None

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a tree."""
        return self.top != self.root


class StreamFrame(NamedTuple):
    """An event as it is sent."""

    seq: int | None
    text: bytes
    execution: str = ""
    parent: str | None = None
    status: str | None = None
    """The terminal status that its execution got by it."""


class FramePage(NamedTuple):
    """Some events, and where they lead."""

    text: bytes
    seen: int | None
    """The number of the last stored event in it."""
    ended: bool
    """Whether the top of the scope has ended with it."""
    end: int = 0
    """The position after it, among the events that are held."""


def framed(event: Mapping[str, Any]) -> StreamFrame:
    """An event of the bus or of a row, encoded."""
    names = ("seq", "type", "execution_id", "parent_execution_id", "root_execution_id", "at")
    head = to_json({name: event[name] for name in names})
    number = b"" if event["seq"] is None else b"id: %d\n" % event["seq"]
    text = b'%sdata: %s,"payload":%s}\n\n' % (number, head[:-1], event["payload"].encode())
    status = None
    if event["type"] == STATUS:
        got = from_json(event["payload"]).get("status")
        status = got if got is not None and ExecutionStatus(got).is_terminal else None
    return StreamFrame(event["seq"], text, event["execution_id"], event["parent_execution_id"], status)


@dataclass(eq=False)
class Topic:
    """The events of one scope since `floor`."""

    scope: Scope
    floor: int
    """The number up to which events are in rows alone."""
    listeners: int = 0
    first: int = 0
    """The position of the oldest event that is held."""
    _held: list[StreamFrame] = field(default_factory=list)
    _bytes: int = 0
    """Of the events that are held."""
    _members: set[str] | None = None
    """The executions of a part of a tree; None until they are known."""
    _unsorted: list[StreamFrame] = field(default_factory=list)
    """Events that came before the members were known."""
    _news: anyio.Event = field(default_factory=anyio.Event)
    _joined: dict[int, FramePage] = field(default_factory=dict)
    _pages: dict[tuple[int, int], FramePage | None] = field(default_factory=dict)
    _paging: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def end(self) -> int:
        """The position after the newest event."""
        return self.first + len(self._held)

    # -- filled by the feed --------------------------------------------------------------------------------------------

    async def prepare(self, stream: StoredEvents) -> None:
        """Find the members of a part of a tree; events that come meanwhile are kept."""
        if self.scope.is_part and self.scope.top is not None and self._members is None:
            found = await stream.below(self.scope.top)
            if self._members is None:
                self._members = found
                for frame in self._unsorted:
                    self.put(frame)
                self._unsorted.clear()

    def put(self, frame: StreamFrame) -> bool:
        """Take an event of the tree, unless it is of another part; whether it was taken."""
        if self.scope.is_part:
            if self._members is None:
                self._unsorted.append(frame)
                return False
            if frame.parent in self._members:
                self._members.add(frame.execution)
            elif frame.execution not in self._members:
                return False
        self.add(frame)
        return True

    def add(self, frame: StreamFrame) -> None:
        """Hold an event, or a heartbeat."""
        self._held.append(frame)
        self._bytes += len(frame.text)
        self._joined.clear()
        if len(self._held) > 2 * HELD or self._bytes > 2 * HELD_BYTES:
            self._let_go()

    def _let_go(self) -> None:
        count = 0
        while len(self._held) - count > HELD or self._bytes > HELD_BYTES:
            old = self._held[count]
            self._bytes -= len(old.text)
            self.floor = old.seq if old.seq is not None else self.floor
            count += 1
        del self._held[:count]
        self.first += count

    def tell(self) -> None:
        """Wake every listener."""
        self._news.set()
        self._news = anyio.Event()

    # -- read by listeners ---------------------------------------------------------------------------------------------

    async def wait(self, position: int) -> None:
        """Return when there are events from a position on and the feed has told of them."""
        news = self._news
        if position >= self.end:
            await news.wait()

    def first_after(self, seen: int) -> int:
        """The position of the first stored event after a number; the end without any."""
        for index, frame in enumerate(self._held):
            if frame.seq is not None and frame.seq > seen:
                return self.first + index
        return self.end

    def past(self, position: int, seen: int) -> int:
        """The position, moved past stored events that a listener has seen: its rows were ahead of the feed."""
        for index in range(len(self._held) - 1, position - self.first - 1, -1):
            number = self._held[index].seq
            if number is not None and number <= seen:
                return self.first + index + 1
        return position

    def since(self, position: int) -> FramePage:
        """The next events from a position on. Listeners at the same position share one answer."""
        found = self._joined.get(position)
        if found is None:
            frames, size = list[StreamFrame](), 0
            for frame in islice(self._held, position - self.first, None):
                frames.append(frame)
                size += len(frame.text)
                if size >= AT_ONCE:
                    break
            found = self._joined[position] = self._page(frames, position + len(frames))
        return found

    async def page(self, stream: StoredEvents, seen: int) -> FramePage | None:
        """The next events after a number that are in rows alone; None without any. Rows up to `floor` never change."""
        key = seen, self.floor
        async with self._paging:
            if key not in self._pages:
                scope = self.scope
                wanted = EventRange(seen, self.floor, scope.root, scope.top, scope.principal)
                rows = await stream.page(wanted, PAGE)
                while len(self._pages) >= PAGES_HELD:
                    del self._pages[next(iter(self._pages))]
                self._pages[key] = self._page([framed(row) for row in rows]) if rows else None
            return self._pages[key]

    def _page(self, frames: Sequence[StreamFrame], end: int = 0) -> FramePage:
        numbers = [frame.seq for frame in frames if frame.seq is not None]
        ended = any(frame.status is not None and frame.execution == self.scope.top for frame in frames)
        return FramePage(b"".join(frame.text for frame in frames), numbers[-1] if numbers else None, ended, end)
