"""One database of one process: its writer, its reads, its sign of life. Opened first and closed last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from db.ids import Owner
from db.owners import Ownership
from db.reads import Reads
from db.writer import Event, Writer


@dataclass(frozen=True, slots=True)
class Database:
    """What the runner and the faces use of the store."""

    path: Path
    owner: Owner
    writer: Writer
    reads: Reads


@asynccontextmanager
async def open_database(path: Path, publish: Callable[[Sequence[Event]], None]) -> AsyncIterator[Database]:
    """Open, migrate if needed, and hold a sign of life; `publish` gets every committed event of this process."""
    async with Writer(path, publish) as writer:
        ownership = Ownership(path)
        reads = Reads(path)
        try:
            yield Database(path, ownership.owner, writer, reads)
        finally:
            await reads.close()
            ownership.close()
