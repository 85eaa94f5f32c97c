"""The feed: one subscription to the events of this process and one look at those of others, for any number of listeners.

Owns the topics, the order of events, heartbeats, and the end of listeners that do not read. Must not know: HTTP.
Invariants: every stored event of the database passes here once and in order while there are listeners; an event is encoded
once; a listener costs agents nothing but its share of one wake-up.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio

from db.clock import loop_time
from db.errors import StoreError
from db.rows.stored_events import EventRange
from server.api.topic import Scope, StreamFrame, Topic, framed

if TYPE_CHECKING:
    from db.rows.stored_events import StoredEvents
    from runner.service.dispatcher import Dispatcher

log = logging.getLogger("outrider.http")

LOOK_SECONDS = 0.3
"""Interval of looks for events of other processes, while there are listeners."""
GATHER_SECONDS, GATHER_MORE, GATHER_MOST = 0.03, 0.0002, 0.2
"""Batching of events: at least, more for each listener, and at most."""
HEARTBEAT_SECONDS = 15.0
STALLED_SECONDS = 10.0
"""A listener that takes nothing for this time is dropped."""
PAGE = 1_000
ROOTS_KNOWN = 10_000

HEARTBEAT = StreamFrame(None, b": still here\n\n")


@dataclass(eq=False)
class OpenLine:
    """The connection of one listener."""

    scope: anyio.CancelScope
    writing_since: float | None = None
    """When the write began that is not over."""


class Feed:
    """The events of all trees, for listeners."""

    def __init__(self, heartbeat: float = HEARTBEAT_SECONDS, stalled: float = STALLED_SECONDS) -> None:
        self._heartbeat, self._stalled = heartbeat, stalled
        self._topics: dict[Scope, Topic] = {}
        self._by_root: dict[str, list[Topic]] = {}
        self._everywhere: list[Topic] = []
        self._lines: set[OpenLine] = set()
        self._newest = 0
        """The number of the last event that passed."""
        self._heard = 0
        """The number of the last one of this process."""
        self._owners: dict[str, str | None] = {}
        """The principals of trees."""
        self._changed: set[int] = set()
        self._something = anyio.Event()
        self._reading = anyio.Lock()
        self._started = anyio.Event()
        self._dispatcher: Dispatcher | None = None

    @property
    def stream(self) -> StoredEvents:
        """The events in rows."""
        assert self._dispatcher is not None
        return self._dispatcher.services.database.reads.stream

    # -- listeners -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def listening(self, scope: Scope) -> AsyncIterator[Topic]:
        """The topic of a scope, as long as it has listeners."""
        await self._started.wait()
        if not self._topics:
            async with self._reading:  # nothing was followed without listeners
                await self._read_on()
        topic = self._topics.get(scope)
        if topic is None:
            topic = self._topics[scope] = Topic(scope, self._newest)
            (self._everywhere if scope.root is None else self._by_root.setdefault(scope.root, [])).append(topic)
        topic.listeners += 1
        try:
            await topic.prepare(self.stream)
            yield topic
        finally:
            topic.listeners -= 1
            if topic.listeners == 0:
                self._forget(topic)

    def _forget(self, topic: Topic) -> None:
        root = topic.scope.root
        del self._topics[topic.scope]
        if root is None:
            self._everywhere.remove(topic)
            return
        self._by_root[root].remove(topic)
        if not self._by_root[root]:
            del self._by_root[root]

    @contextmanager
    def line(self, scope: anyio.CancelScope) -> Iterator[OpenLine]:
        """Watch the writes of a connection: one that lasts too long cancels its scope."""
        line = OpenLine(scope)
        self._lines.add(line)
        try:
            yield line
        finally:
            self._lines.discard(line)

    # -- run -----------------------------------------------------------------------------------------------------------

    async def run(self, dispatcher: Dispatcher) -> None:
        """Carry events to topics, until cancelled."""
        self._dispatcher = dispatcher
        self._newest = await self.stream.newest()
        self._started.set()
        async with anyio.create_task_group() as group:
            group.start_soon(self._hear, dispatcher, name="hear events")
            group.start_soon(self._look, name="look for events of other processes")
            group.start_soon(self._tell, name="tell listeners")
            group.start_soon(self._beat, name="send heartbeats")
            group.start_soon(self._drop_stalled, name="drop stalled listeners")

    async def _hear(self, dispatcher: Dispatcher) -> None:
        while True:
            async with dispatcher.services.bus.watch() as events:
                await self._catch_up()
                async for event in events:
                    await self._take(event)

    async def _take(self, event: Mapping[str, Any]) -> None:
        number = event["seq"]
        await self._learn_owner(event)
        if number is None:
            self._pass_on(event)
            return
        if number <= self._heard:
            self._turn_back(number - 1)
        self._heard = number
        if number == self._newest + 1:
            self._newest = number
            self._pass_on(event)
        elif number > self._newest:
            await self._catch_up()

    def _turn_back(self, newest: int) -> None:
        """Numbers begin again: the database was replaced by one with fewer events."""
        self._newest = min(self._newest, newest)
        for topic in self._topics.values():
            topic.floor = min(topic.floor, self._newest)

    async def _look(self) -> None:
        while True:
            await anyio.sleep(LOOK_SECONDS)
            if self._topics:
                await self._catch_up()

    async def _catch_up(self) -> None:
        """Read the events that did not come over the bus."""
        try:
            async with self._reading:
                await self._read_on()
        except StoreError as error:
            log.info("events could not be read: %s", error)

    async def _read_on(self) -> None:
        known = self._newest  # the bus may go on while rows are read
        newest = await self.stream.newest()
        if newest < known:
            self._turn_back(newest)
        elif not self._topics:
            self._newest = max(self._newest, newest)
        while self._newest < newest:
            rows = await self.stream.page(EventRange(self._newest, newest), PAGE)
            for row in rows:
                await self._learn_owner(row)
                if row["seq"] > self._newest:  # else it came over the bus meanwhile
                    self._newest = row["seq"]
                    self._pass_on(row)
            if not rows:
                self._newest = max(self._newest, newest)

    def _pass_on(self, event: Mapping[str, Any]) -> None:
        root = event["root_execution_id"]
        topics = self._by_root.get(root, ())
        if not topics and not self._everywhere:
            return
        frame = framed(event)
        for topic in topics:
            if topic.put(frame):
                self._note(topic)
        for topic in self._everywhere:
            if topic.scope.principal is None or topic.scope.principal == self._owners.get(root):
                topic.add(frame)
                self._note(topic)

    async def _learn_owner(self, event: Mapping[str, Any]) -> None:
        """Know the principal of a tree, where a listener hears those of one principal."""
        root = event["root_execution_id"]
        if root in self._owners or all(topic.scope.principal is None for topic in self._everywhere):
            return
        assert self._dispatcher is not None
        live = self._dispatcher.tree.get(root)
        row = await self._dispatcher.services.database.reads.execution(root) if live is None else None
        while len(self._owners) >= ROOTS_KNOWN:
            del self._owners[next(iter(self._owners))]
        self._owners[root] = live.origin.principal if live is not None else row["principal"] if row is not None else None

    def _note(self, topic: Topic) -> None:
        self._changed.add(id(topic))
        self._something.set()

    async def _tell(self) -> None:
        while True:
            await self._something.wait()
            await anyio.sleep(min(GATHER_MOST, GATHER_SECONDS + GATHER_MORE * len(self._lines)))
            self._something = anyio.Event()
            changed, self._changed = self._changed, set()
            for topic in tuple(self._topics.values()):
                if id(topic) in changed:
                    topic.tell()

    async def _beat(self) -> None:
        while True:
            await anyio.sleep(self._heartbeat)
            for topic in self._topics.values():
                topic.add(HEARTBEAT)
                self._note(topic)

    async def _drop_stalled(self) -> None:
        while True:
            await anyio.sleep(self._stalled / 4)
            late = loop_time() - self._stalled
            for line in tuple(self._lines):
                if line.writing_since is not None and line.writing_since < late:
                    log.info("a listener that does not read was dropped")
                    line.scope.cancel("it does not read")
