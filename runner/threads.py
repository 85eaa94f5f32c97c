"""Threads that may be left behind: a blocking call is waited for, and whoever stops waiting goes on without it.

Owns these threads. They are daemons: a call that nobody can stop must not keep a process from ending. Invariant: nothing
of a call that was left behind reaches the event loop, neither what it returns nor what it raises.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel


async def in_thread(call: Callable[[], Any], name: str) -> Any:
    """What the call returns or raises."""
    loop, done = anyio.lowlevel.current_token(), anyio.Event()
    returned: list[Any] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # whatever it is: somebody waits for the end of this
            raised.append(error)
        with suppress(anyio.RunFinishedError):
            anyio.from_thread.run_sync(done.set, token=loop)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    await done.wait()
    if raised:
        raise raised[0]
    return returned[0]
