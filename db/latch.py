"""A latch: an event that costs nothing until a task waits. For most writes and most executions none does.

Invariant: it is set once and stays set; used in the event loop's thread only.
"""

from __future__ import annotations

import anyio
import anyio.lowlevel


class Latch:
    """Set once; every waiting task then continues."""

    __slots__ = ("_event", "_set")

    def __init__(self, *, is_set: bool = False) -> None:
        self._set = is_set
        self._event: anyio.Event | None = None

    @property
    def is_set(self) -> bool:
        """Whether it was set."""
        return self._set

    def set(self) -> None:
        """Set it and wake the waiting tasks; repeating it does nothing."""
        self._set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Return once it is set."""
        if self._set:
            await anyio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
