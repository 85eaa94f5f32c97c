"""A database as it was after any of its commits: the write-ahead log, cut there.

Owns: the format of SQLite's log, as far as it says where a transaction ends. Must not know: what is in it.
Invariant: a cut is what a machine finds whose process was killed between two commits.
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
    """While somebody reads, the log is not folded back: it keeps every commit from here on."""
    with closing(sqlite_library().connect(f"file:{database}?mode=ro", uri=True, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select count(*) from sqlite_master").fetchall()
        yield


@dataclass(frozen=True)
class Recording:
    """A database and its log, copied while it was open and nobody wrote."""

    database: bytes
    log: bytes

    @classmethod
    async def of(cls, database: Path, folder: Path) -> Recording:
        """Copy it into an empty folder. By another process: one that closes a file of its own database loses its locks."""
        files = [database, database.with_name(database.name + "-wal")]
        await anyio.run_process(["cp", *map(str, files), str(folder)])
        copy, log = ((folder / file.name).read_bytes() for file in files)
        return cls(copy, log)

    @property
    def commits(self) -> list[int]:
        """Where in the log each transaction ends."""
        (page,) = struct.unpack_from(">I", self.log, 8)
        frames = range(_HEADER, len(self.log) - page - _FRAME + 1, page + _FRAME)
        salts = self.log[16:24]
        return [
            start + _FRAME + page
            for start in frames
            if self.log[start + 8 : start + 16] == salts and struct.unpack_from(">I", self.log, start + 4)[0]
        ]

    def cut(self, folder: Path, end: int) -> Path:
        """The database in `folder` as it was when the log ended there."""
        database = folder / "outrider.db"
        database.write_bytes(self.database)
        database.with_name(database.name + "-wal").write_bytes(self.log[:end])
        return database
