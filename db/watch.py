"""Notice that another process has written: SQLite's data version, looked at a few times a second.

The counter belongs to a connection, so it is read from one that is kept for nothing else. Knows nothing of what changed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import aiosqlite
import anyio

from db.engine import connect_read_only, sqlite_library

INTERVAL = 0.2
"""Seconds between looks: soon enough for a person who cancels, cheap enough to forget about (about 60 µs a look)."""


async def changes(path: Path, interval: float = INTERVAL) -> AsyncGenerator[None]:
    """Yield once at the start, then whenever the database changed since the last look. Close it: it holds a connection."""
    connection = connect_read_only(path)
    try:
        with anyio.CancelScope(shield=True):  # opening a file; a connection that is cut while it opens loses its thread
            _ = await connection
        seen: int | None = None
        while True:
            version = await _look(connection)
            if version is not None and version != seen:
                seen = version
                yield
            await anyio.sleep(interval)
    finally:
        with anyio.CancelScope(shield=True):  # bounded: nothing of it is running
            await connection.close()


async def _look(connection: aiosqlite.Connection) -> int | None:
    """The version, or None while a checkpoint is in progress. Shielded: it is short, and its thread must not be left."""
    row = None
    with anyio.CancelScope(shield=True):
        try:
            async with connection.execute("PRAGMA data_version") as cursor:
                row = await cursor.fetchone()
        except sqlite_library().OperationalError:
            return None
    return int(row[0]) if row is not None else None
