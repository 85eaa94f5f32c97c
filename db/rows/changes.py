"""Changes: whether other processes have written to a database since the last look, for a process that only reads.

Owns one connection, because SQLite counts the commits of others for each connection. A look reads no row: it costs the same
in a large database. Invariant: a look never waits for a writer, and a file that was deleted or replaced is told, because
its old connection would see no change for ever.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiosqlite
import anyio

from db.errors import DatabaseUnavailable
from db.store.engine import connect_read_only, sqlite_library
from db.store.location import state_at_rest

CLOSING_SECONDS = 2.0


class Changes:
    """The commits of others in one database."""

    def __init__(self, path: Path, connection: aiosqlite.Connection, at_rest: tuple[int, ...] | None) -> None:
        self._path, self._connection = path, connection
        self._at_rest = at_rest
        """The state of the file if the connection reads it alone: then SQLite counts no commits."""
        self._file = _file(path)
        self._count: int | None = None

    async def have_come(self) -> bool:
        """Whether others have committed since the last look; the first look says yes. Raises DatabaseUnavailable."""
        if _file(self._path) != self._file:
            raise DatabaseUnavailable(
                f"the database `{self._path}` was deleted or replaced while it was read", "call the command again"
            )
        if self._at_rest is not None and self._at_rest != (now := state_at_rest(self._path)):
            await self.close()
            self._connection, self._at_rest, self._count = await connect_read_only(self._path), now, None
        before, row = self._count, None
        try:
            # Shielded: cancelling a read would break its connection.
            with anyio.CancelScope(shield=True):
                async with self._connection.execute("PRAGMA data_version") as cursor:
                    row = await cursor.fetchone()
        except (sqlite3.Error, sqlite_library().Error):
            return True  # the caller reads, and is told what is wrong
        self._count = int(row[0]) if row is not None else None
        return self._count != before

    async def close(self) -> None:
        """Close the connection."""
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await self._connection.close()

    async def come(self, seconds: float) -> None:
        """Wait until others have committed, with so many seconds between looks. Raises DatabaseUnavailable."""
        while True:
            if await self.have_come():
                return
            await anyio.sleep(seconds)


@asynccontextmanager
async def changes_of(path: Path) -> AsyncIterator[Changes]:
    """Look for changes of an existing database."""
    at_rest = state_at_rest(path)
    changes = Changes(path, await connect_read_only(path), at_rest)
    try:
        yield changes
    finally:
        await changes.close()


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - at every look
    except OSError:
        return None
    return found.st_dev, found.st_ino
