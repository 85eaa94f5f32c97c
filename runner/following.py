"""Following a tree: its events after a number, each once and in order, from rows and live, until the tree has ended.

Owns the way between the two: it listens first and reads the rows then, so nothing falls in between; whoever was too slow,
or follows a tree that another process runs, goes back to the rows. A number is always that of an event of the same tree.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from pydantic_core import from_json

from db.database import Database
from db.errors import UnknownExecution
from db.status import ExecutionStatus
from db.store.owners import is_alive
from runner.bus import LOOK, Bus, Event

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
