"""Shutdown of a process within its grace period. Apart from `serve`, because `outrider run` needs it without an MCP server.

Owns which signals ask for it, how the grace period is divided between draining and closing, and the forced exit when both
take too long. Must not know: the cause of the shutdown. Invariant: the process has exited when the grace period is over.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry import OnDisconnect
    from runner.service.dispatcher import Dispatcher

CLOSING_SECONDS = 5.0
"""Part of the grace period kept for closing: upstream processes that do not exit are killed after four seconds."""


async def come_to_rest(dispatcher: Dispatcher, wish: OnDisconnect, reason: str, leave: Callable[[], object]) -> None:
    """Drain the executions as `wish` says; `leave` ends the process when the grace period is over."""
    grace = dispatcher.services.settings.serve.shutdown_grace
    leave_after(grace, leave)
    await dispatcher.drain(grace - min(CLOSING_SECONDS, grace / 2), wish, reason)


def leave_after(seconds: float, leave: Callable[[], object]) -> None:
    """Schedule a forced exit. It loses nothing: acknowledged work is committed, and open executions are resumed."""
    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()


def polite_stops() -> tuple[signal.Signals, ...]:
    """Signals that ask a process to end. One that is ignored, as `nohup` does with a hangup, stays ignored."""
    asked = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)
    return tuple(each for each in asked if signal.getsignal(each) is not signal.SIG_IGN)
