"""Shutdown of a process within its grace period. Apart from `serve`, because `outrider run` needs it without an MCP server.

Owns how the grace is divided between running executions and closing, and the exit when both take too long. Must not know:
who asked for it. Invariant: when the grace is over the process is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry import OnDisconnect
    from runner.service.dispatcher import Dispatcher

CLOSING_SECONDS = 5.0
"""Of the grace, what is kept for closing: upstream processes that do not go by themselves are killed after four."""


async def come_to_rest(dispatcher: Dispatcher, wish: OnDisconnect, reason: str, leave: Callable[[], object]) -> None:
    """Let what is under way come to its end, or cancel it, as is wished; `leave` ends the process when time is up."""
    grace = dispatcher.services.settings.serve.shutdown_grace
    leave_after(grace, leave)
    await dispatcher.drain(grace - min(CLOSING_SECONDS, grace / 2), wish, reason)


def leave_after(seconds: float, leave: Callable[[], object]) -> None:
    """Call what ends the process by then: what was acknowledged is committed, and the rest is resumed."""
    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
