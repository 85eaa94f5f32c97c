"""Events of a tree, live and from rows: fan-out to watchers, and following a tree from any event number until it has ended.

Owns the watchers and their bounded backlogs. A slow watcher is cut off, never waited for; rows keep what it missed.
Following subscribes first and reads the rows then, so no event falls in between.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from pydantic_core import from_json

from db.database import Database
from db.errors import UnknownExecution
from db.status import ExecutionStatus
from db.store.owners import is_alive

BACKLOG = 1_000
"""Events a follower may lag behind before it reads on from the rows."""
PAGE = 1_000
OWNER_SECONDS = 2.0
"""Between looks at whether the process that runs the tree still lives, if it is not this one."""


async def follow(bus: Bus, database: Database, root: str, after: int = 0) -> AsyncGenerator[Event]:
    """The events of a tree after number `after`; those that are not stored (`seq` is None) only while it keeps up.

    Ends when the tree has ended, or the process that ran it is gone. Raises UnknownExecution. Close it.
    """
    row = await database.reads.execution(root)
    if row is None or row["parent_execution_id"] is not None:
        raise UnknownExecution(root)
    following = _Following(database, row, after)
    while not following.over:
        async with bus.watch(root, BACKLOG) as live:
            event: Event | None = LOOK
            while event is not None:
                if event is LOOK:
                    while page := await following.page():
                        for stored in page:
                            yield stored
                elif following.takes(event):
                    yield event
                event = await following.next(live)


class _Following:
    """How far a follower has come."""

    def __init__(self, database: Database, root: Mapping[str, Any], after: int) -> None:
        self._database, self._root, self._seen = database, root["id"], after
        self._elsewhere: str | None = root["owner"] if root["owner"] != database.owner else None
        self._ended = root["finished_at"] is not None
        self.over = False

    async def page(self) -> list[Event]:
        """The next events from the rows; none when all were told."""
        return [each for each in await self._database.reads.events(self._root, self._seen, PAGE) if self.takes(each)]

    def takes(self, event: Event) -> bool:
        """Whether an event is news; it is not the second time."""
        if event["seq"] is None:
            return True
        if event["seq"] <= self._seen:
            return False
        self._seen = event["seq"]
        if event["execution_id"] == self._root and event["type"] == "execution.status":
            self._ended = ExecutionStatus(from_json(event["payload"])["status"]).is_terminal
        return True

    async def next(self, live: MemoryObjectReceiveStream[Event]) -> Event | None:
        """What comes next; None when the follower was too slow, or nothing more can come."""
        self.over = self.over or self._ended
        if self.over:
            return None
        try:
            if self._elsewhere is None:
                return await live.receive()
            while is_alive(self._database.path, self._elsewhere):
                with anyio.move_on_after(OWNER_SECONDS):
                    return await live.receive()
        except anyio.EndOfStream:
            return None
        self.over = True
        return LOOK  # the last words of a process that is gone


Event = Mapping[str, Any]

BACKLOG = 10_000
"""Events a watcher may lag behind before it is cut off."""

LOOK: Event = {"type": "look", "seq": None}
"""Tells whoever watches one tree that there are rows it is not told of: another process wrote them."""


class Bus:
    """Publishes in the event loop's thread; never blocks and never raises."""

    def __init__(self) -> None:
        self._watchers: dict[MemoryObjectSendStream[Event], str | None] = {}
        """With the tree each of them watches; None watches them all."""
        self._newest: int | None = None
        """The number of the last stored event that was published here."""

    def watched(self, root: str) -> bool:
        """Whether anybody watches this tree; what is not stored need not be made otherwise."""
        return bool(self._watchers) and any(tree is None or tree == root for tree in self._watchers.values())

    def publish(self, events: Sequence[Event]) -> None:
        """Hand committed events to the watchers, in order."""
        before, self._newest = self._newest, events[-1]["seq"]
        if not self._watchers:
            return
        if before is None or events[0]["seq"] != before + 1:
            self.look()
        self._send(events)

    def publish_unstored(self, event: Event) -> None:
        """Hand an event that is not stored to the watchers."""
        self._send((event,))

    def look(self) -> None:
        """Another process wrote: whoever watches one tree has to look at the rows."""
        self._send((LOOK,))

    def _send(self, events: Sequence[Event]) -> None:
        for watcher, tree in tuple(self._watchers.items()):
            try:
                for event in events:
                    if event.get("root_execution_id", tree) == tree if tree is not None else event is not LOOK:
                        watcher.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError):
                self._cut(watcher)

    def _cut(self, watcher: MemoryObjectSendStream[Event]) -> None:
        self._watchers.pop(watcher, None)
        watcher.close()

    @asynccontextmanager
    async def watch(
        self, root: str | None = None, backlog: int = BACKLOG
    ) -> AsyncIterator[MemoryObjectReceiveStream[Event]]:
        """Everything published from now on, of one tree or of all. The stream ends when the watcher was too slow."""
        send, receive = anyio.create_memory_object_stream[Event](backlog)
        self._watchers[send] = root
        try:
            with receive:
                yield receive
        finally:
            self._cut(send)
