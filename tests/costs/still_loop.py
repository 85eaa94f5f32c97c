"""An event loop whose course does not depend on timing, so that two runs of the same work make the same calls.

Three things differ between runs of a usual loop; here each waits until the loop is idle:
- sockets are not read while a callback is ready, so it does not matter in which iteration data arrives,
- callbacks from other threads (the writer's) are taken over together, and waking the loop for them is not counted,
- time stands still, so that no timer fires: polls, heartbeats and timeouts are left out.

Owns: the loop. Must not know: what runs in it. Invariant: a run whose progress needs a timer hangs; its process is bounded.
"""

from __future__ import annotations

import selectors
import sys
import threading
from asyncio import Handle, SelectorEventLoop
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

import anyio

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

NO_SWITCH_SECONDS = 1000.0
"""Another thread runs only when the loop's thread waits for something."""


class IdleSelector(selectors.DefaultSelector):
    """Looks at files only when no callback is ready, and then waits without a timeout."""

    loop: StillLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return []
        while True:
            found = super().select(None)
            files = [(key, mask) for key, mask in found if key.fd != self.loop.wake_up]
            if len(files) < len(found):
                self.loop.take_over()
            if files or self.loop.is_ready:
                return files


class StillLoop(SelectorEventLoop):
    """The loop."""

    _ready: deque[Handle]
    _ssock: Any

    def __init__(self) -> None:
        self._foreign: deque[Handle] = deque()
        self._thread = threading.get_ident()
        selector = IdleSelector()
        selector.loop = self
        super().__init__(selector)

    @property
    def wake_up(self) -> int:
        """The descriptor that becomes readable when another thread has a callback."""
        return int(self._ssock.fileno())

    @property
    def is_ready(self) -> bool:
        """Whether a callback is ready."""
        return bool(self._ready)

    def time(self) -> float:
        return 0.0

    def call_soon_threadsafe(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> Handle:
        if threading.get_ident() == self._thread:
            return super().call_soon_threadsafe(callback, *args, context=context)
        handle = Handle(callback, args, self, context)
        self._foreign.append(handle)
        self._write_to_self()  # type: ignore[attr-defined]
        return handle

    def take_over(self) -> None:
        """Make the callbacks of other threads ready."""
        while True:
            try:
                if not self._ssock.recv(4096):
                    break
            except BlockingIOError:
                break
        while self._foreign:
            self._ready.append(self._foreign.popleft())


def run_still(function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Run a coroutine function on such a loop."""
    sys.setswitchinterval(NO_SWITCH_SECONDS)
    return anyio.run(function, *arguments, backend_options={"loop_factory": StillLoop})
