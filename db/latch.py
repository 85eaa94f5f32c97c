"""A latch: an event that costs nothing until somebody waits, as nobody does for most writes and most executions.

Invariant: it is set once and stays set; used in the event loop's thread only.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel


class Latch:
    """Set once; whoever waits goes on then."""

    __slots__ = ("_event", "_set")

    def __init__(self, *, is_set: bool = False) -> None:
        self._set = is_set
        self._event: anyio.Event | None = None

    @property
    def is_set(self) -> bool:
        """Whether it happened."""
        return self._set

    def set(self) -> None:
        """It happened; harmless when repeated."""
        self._set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Return when it has happened."""
        if self._set:
            await anyio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
