"""Reads the events of a tree.

Owns: collecting the events that a follower of a tree receives, and small queries of them. Must not know: any test.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from runner.record.events import Event
from runner.service.dispatcher import Dispatcher

STORED = (
    "seq",
    "execution_id",
    "parent_execution_id",
    "root_execution_id",
    "type",
    "payload",
    "at",
    "session_id",
)


def payload(event: Event) -> dict[str, Any]:
    """The decoded payload of an event."""
    said: dict[str, Any] = json.loads(event["payload"])
    return said


def stored(events: Iterable[Event]) -> list[Event]:
    """The events with a sequence number."""
    return [event for event in events if event["seq"] is not None]


@dataclass
class Follower:
    """Follows a tree to its end, and collects its events."""

    told: list[Event] = field(default_factory=list)
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def follow(self, dispatcher: Dispatcher, root: str, after: int = 0) -> None:
        """Collect events until the tree has ended."""
        async with aclosing(dispatcher.events(root, after)) as events:
            async for event in events:
                self.told.append(event)
                self._news.set()
                self._news = anyio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition, checked after every event, is true."""
        while not condition():
            await self._news.wait()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The payloads of all events of a type, in order."""
        return [payload(event) for event in self.told if event["type"] == kind]


@asynccontextmanager
async def followed(dispatcher: Dispatcher, root: str, after: int = 0) -> AsyncIterator[Follower]:
    """Follow a tree in a task; the exit waits until the tree has ended."""
    follower = Follower()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(follower.follow, dispatcher, root, after, name="follower")
            yield follower
