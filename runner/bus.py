"""Fan-out of events to whoever watches. A slow watcher is cut off, never waited for; the rows keep what it missed.

Owns the watchers and their bounded backlogs. It knows nothing of what an event means and stores none: whoever was cut off
reads on from the rows (`runner/following.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

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
