"""Notice that another process has written: SQLite's data version, looked at a few times a second.

Asked of the writer's own connection, which alone can tell others' commits from this process's. Knows not what changed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import anyio

from db.writer import Writer

INTERVAL = 0.2
"""Seconds between looks: soon enough for a person who cancels, cheap enough to forget about."""


async def changes(writer: Writer, seen: int | None = None, interval: float = INTERVAL) -> AsyncGenerator[None]:
    """Yield whenever another process has changed the database since the last look, the first one compared with `seen`."""
    while True:
        version = await writer.version()
        if version is not None and version != seen:
            seen = version
            yield
        await anyio.sleep(interval)
