"""Restores a database to its state after any commit, by truncating its write-ahead log.

Owns: the format of SQLite's log, as far as it marks the end of a transaction. Must not know: the content of the database.
Invariant: a truncated log is the state that a process leaves when it is killed between two commits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from db.store.engine import sqlite_library

_HEADER, _FRAME = 32, 24


@contextmanager
def unfolded(database: Path) -> Iterator[None]:
    """Keep every commit in the log from here on: an open read transaction prevents a checkpoint."""
    with closing(sqlite_library().connect(f"file:{database}?mode=ro", uri=True, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from sqlite_master").fetchall()
        yield


@dataclass(frozen=True)
class Recording:
    """A database and its log, copied while the database was open without writes."""

    database: bytes
    log: bytes

    @classmethod
    async def of(cls, database: Path, folder: Path) -> Recording:
        """Copy both into an empty folder, by another process: closing a file of an open database drops the locks on it."""
        files = [database, database.with_name(database.name + "-wal")]
        await anyio.run_process(["cp", *map(str, files), str(folder)])
        copy, log = ((folder / file.name).read_bytes() for file in files)
        return cls(copy, log)

    @property
    def commits(self) -> list[int]:
        """The offsets in the log at which transactions end."""
        (page,) = struct.unpack_from(">I", self.log, 8)
        frames = range(_HEADER, len(self.log) - page - _FRAME + 1, page + _FRAME)
        salts = self.log[16:24]
        return [
            start + _FRAME + page
            for start in frames
            if self.log[start + 8 : start + 16] == salts and struct.unpack_from(">I", self.log, start + 4)[0]
        ]

    def cut(self, folder: Path, end: int) -> Path:
        """Write the database to `folder` as it was when its log ended at `end`."""
        database = folder / "outrider.db"
        database.write_bytes(self.database)
        database.with_name(database.name + "-wal").write_bytes(self.log[:end])
        return database
