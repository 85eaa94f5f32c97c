"""Notice that another process has written: SQLite's data version, looked at a few times a second.

The counter belongs to a connection, so it is read from one that is kept for nothing else. Knows nothing of what changed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio

from db.engine import connect_read_only, sqlite_library

INTERVAL = 0.2
"""Seconds between looks: soon enough for a person who cancels, cheap enough to forget about (about 60 µs a look)."""


async def changes(path: Path, interval: float = INTERVAL) -> AsyncGenerator[None]:
    """Yield once at the start, then whenever the database changed since the last look. Close it: it holds a connection."""
    trouble: type[Exception] = sqlite_library().OperationalError
    async with connect_read_only(path) as connection:
        seen: int | None = None
        while True:
            try:
                async with connection.execute("PRAGMA data_version") as cursor:
                    row = await cursor.fetchone()
            except trouble:
                row = None  # a checkpoint in progress; look again
            if row is not None and row[0] != seen:
                seen = row[0]
                yield
            await anyio.sleep(interval)
