"""Events of a tree, live and from rows: fan-out to watchers, and following a tree from any event number until it ends.

Owns the watchers and their bounded backlogs. A slow watcher is cut off, never waited for; it reads the missed events from
rows. A follower subscribes before it reads rows, so no event falls between the two.
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
"""Events a follower may lag behind before it reads from rows again."""
PAGE = 1_000
OWNER_SECONDS = 2.0
"""Interval between checks whether another process that runs the tree is still alive."""


async def follow(bus: Bus, database: Database, root: str, after: int = 0) -> AsyncGenerator[Event]:
    """The events of a tree after number `after`. Unstored events (`seq` is None) are skipped when the follower lags.

    Ends when the tree has ended or its process is gone. Raises UnknownExecution. The caller must close the generator.
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
    """The position of a follower."""

    def __init__(self, database: Database, root: Mapping[str, Any], after: int) -> None:
        self._database, self._root, self._seen = database, root["id"], after
        self._elsewhere: str | None = root["owner"] if root["owner"] != database.owner else None
        self._ended = root["finished_at"] is not None
        self.over = False

    async def page(self) -> list[Event]:
        """The next events from rows; empty at the end."""
        return [each for each in await self._database.reads.events(self._root, self._seen, PAGE) if self.takes(each)]

    def takes(self, event: Event) -> bool:
        """Whether an event is new to this follower; advances its position."""
        if event["seq"] is None:
            return True
        if event["seq"] <= self._seen:
            return False
        self._seen = event["seq"]
        if event["execution_id"] == self._root and event["type"] == "execution.status":
            self._ended = ExecutionStatus(from_json(event["payload"])["status"]).is_terminal
        return True

    async def next(self, live: MemoryObjectReceiveStream[Event]) -> Event | None:
        """The next live event; None when the follower was too slow or the tree is over."""
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
        return LOOK  # read the last events that the dead process committed


Event = Mapping[str, Any]

BACKLOG = 10_000
"""Events a watcher may lag behind before it is cut off."""

LOOK: Event = {"type": "look", "seq": None}
"""Tells watchers of one tree to read rows: another process has written."""


class Bus:
    """Publishes in the event loop's thread; never blocks and never raises."""

    def __init__(self) -> None:
        self._watchers: dict[MemoryObjectSendStream[Event], str | None] = {}
        """Each watcher with the tree it watches; None for all trees."""
        self._newest: int | None = None
        """The number of the last stored event published here; a gap means another process wrote."""

    def watched(self, root: str) -> bool:
        """Whether this tree has a watcher; without one, unstored events need not be built."""
        return bool(self._watchers) and any(tree is None or tree == root for tree in self._watchers.values())

    def publish(self, events: Sequence[Event]) -> None:
        """Send committed events to the watchers, in order."""
        before, self._newest = self._newest, events[-1]["seq"]
        if not self._watchers:
            return
        if before is None or events[0]["seq"] != before + 1:
            self.look()
        self._send(events)

    def publish_unstored(self, event: Event) -> None:
        """Send an event that is not stored to the watchers."""
        self._send((event,))

    def look(self) -> None:
        """Tell watchers of single trees to read rows: another process has written."""
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
        """Subscribe to one tree or to all. The stream ends when the watcher is too slow."""
        send, receive = anyio.create_memory_object_stream[Event](backlog)
        self._watchers[send] = root
        try:
            with receive:
                yield receive
        finally:
            self._cut(send)
