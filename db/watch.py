"""Notice that another process has written: SQLite's data version, looked at a few times a second.

The counter belongs to a connection, so it is read from one that is kept for nothing else. Knows nothing of what changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import anyio

from db.location import read_only_uri

INTERVAL = 0.2
"""Seconds between looks: soon enough for a person who cancels, cheap enough to forget about (about 60 µs a look)."""


async def changes(path: Path, interval: float = INTERVAL) -> AsyncIterator[None]:
    """Yield once at the start, then whenever the database changed since the last look."""
    async with aiosqlite.connect(read_only_uri(path), uri=True) as connection:
        seen: int | None = None
        while True:
            try:
                row = await (await connection.execute("PRAGMA data_version")).fetchone()
            except sqlite3.OperationalError:
                row = None  # a checkpoint in progress; look again
            if row is not None and row[0] != seen:
                seen = row[0]
                yield
            await anyio.sleep(interval)
