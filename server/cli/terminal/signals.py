"""Signals that end the work of a command early, before it has come to its end.

Owns what each of them means for the exit. Must not know: the work. Invariant: the work is unwound, so that what it opened
is closed and what it created for itself is removed.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import anyio

from server.cli.terminal.exits import Exit


async def unless_left(work: Callable[[], Awaitable[None]]) -> Exit | None:
    """Do the work until it ends; the exit of the person or the process that ended it before, else None."""
    came = await unless_signalled(work, (signal.SIGINT, signal.SIGTERM))
    if came is None:
        return None
    return Exit.INTERRUPTED if came is signal.SIGINT else Exit.STOPPED


async def unless_signalled(work: Callable[[], Awaitable[None]], minded: Sequence[signal.Signals]) -> signal.Signals | None:
    """Do the work until it ends; the signal that ended it before, else None."""
    came: signal.Signals | None = None
    with anyio.open_signal_receiver(*minded) as signals:
        async with anyio.create_task_group() as group:

            async def mind(signals: AsyncIterator[signal.Signals]) -> None:
                nonlocal came
                came = await anext(signals)
                group.cancel_scope.cancel("left")

            group.start_soon(mind, signals, name="mind signals")
            await work()
            group.cancel_scope.cancel("done")
    return came
