"""The database as commands that only look at it, or only leave a wish in it, open it: it must be there already.

Owns the two ways in. Must not know: what a command wants to see. Invariant: looking creates and changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from db.database import Database
    from db.rows.reads import Reads
    from runner.record.recorder import Recorder


@asynccontextmanager
async def reading(database: Path) -> AsyncIterator[Reads]:
    """Questions to an existing database; raises DatabaseUnavailable or SchemaTooNew."""
    from db.rows.reads import Reads

    reads = Reads(database)
    try:
        await reads.check()
        yield reads
    finally:
        await reads.close()


@asynccontextmanager
async def writing(database: Path) -> AsyncIterator[tuple[Database, Recorder]]:
    """A database to leave a fact in, without a service around it."""
    from db.database import open_database
    from runner.record.events import Bus
    from runner.record.recorder import Recorder

    async with reading(database):  # refuses what is not there before the writer would create it
        recorder = Recorder(Bus())
        async with open_database(database, recorder.publish) as opened:
            recorder.attach(opened.writer)
            yield opened, recorder
