"""Fan-out of events to whoever watches. A slow watcher is cut off, never waited for; the rows keep what it missed."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

Event = Mapping[str, Any]

BACKLOG = 10_000
"""Events a watcher may lag behind before it is cut off."""


class Bus:
    """Publishes in the event loop's thread; never blocks and never raises."""

    def __init__(self) -> None:
        self._watchers: set[MemoryObjectSendStream[Event]] = set()

    @property
    def watched(self) -> bool:
        """Whether anybody listens; what is not stored need not be made otherwise."""
        return bool(self._watchers)

    def publish(self, events: Iterable[Event]) -> None:
        """Hand committed events to the watchers, in order."""
        for watcher in tuple(self._watchers):
            try:
                for event in events:
                    watcher.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._watchers.discard(watcher)
                watcher.close()

    @asynccontextmanager
    async def watch(self, backlog: float = BACKLOG) -> AsyncIterator[MemoryObjectReceiveStream[Event]]:
        """Everything published from now on. The stream ends when the watcher was too slow."""
        send, receive = anyio.create_memory_object_stream[Event](min(backlog, math.inf))
        self._watchers.add(send)
        try:
            with receive:
                yield receive
        finally:
            self._watchers.discard(send)
            send.close()
