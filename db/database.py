"""One database of one process: its writer, its reads, its owner lock. Opened first and closed last."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from db.ids import Owner
from db.query.gate import QueryGate
from db.rows.reads import Reads
from db.store.owners import Ownership
from db.store.unit import Event
from db.store.writer import Writer


@dataclass(frozen=True, slots=True)
class Database:
    """The parts of the store that the runner and the faces use."""

    path: Path
    owner: Owner
    writer: Writer
    reads: Reads
    queries: QueryGate
    """Runs read-only SQL for callers."""


@asynccontextmanager
async def open_database(path: Path, publish: Callable[[Sequence[Event]], None]) -> AsyncIterator[Database]:
    """Open, migrate if needed, and hold the owner lock; `publish` gets every committed event of this process."""
    async with AsyncExitStack() as stack:
        last = stack.enter_context(ExitStack())  # the owner lock outlives the writer, which may still commit
        writer = await stack.enter_async_context(Writer(path, publish))
        ownership = Ownership(path)
        last.callback(ownership.close)
        reads = Reads(path, lambda: writer.openings)
        stack.push_async_callback(reads.close)
        yield Database(path, ownership.owner, writer, reads, QueryGate(path))
