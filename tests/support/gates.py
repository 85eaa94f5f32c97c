"""Gates for tests that wait for other things, too: `shell.held` without holding up the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import anyio.to_thread

from tests.support.shell import held


@asynccontextmanager
async def at_gate(gate: Path) -> AsyncIterator[IO[str]]:
    """Begin when a call waits at the gate; the gate opens at the end."""
    waiting = held(gate)
    writer = await anyio.to_thread.run_sync(waiting.__enter__)
    try:
        yield writer
    finally:
        waiting.__exit__(None, None, None)
