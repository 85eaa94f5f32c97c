"""`shell.held` for asynchronous tests: it waits in a thread, so that the event loop is not blocked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import anyio.to_thread

from tests.support.shell import held


@asynccontextmanager
async def at_gate(gate: Path) -> AsyncIterator[IO[str]]:
    """Enter when a call waits at the gate; the exit opens the gate."""
    waiting = held(gate)
    writer = await anyio.to_thread.run_sync(waiting.__enter__)
    try:
        yield writer
    finally:
        waiting.__exit__(None, None, None)
