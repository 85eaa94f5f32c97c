"""The database of commands that do not run a service: they read it, or record one fact in it.

Owns both ways in, and the question what interrupted trees lack in this environment. Must not know: what a command shows.
Invariants: reading creates and changes nothing; where nothing is interrupted, nothing heavy is imported.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from db.database import Database
    from db.rows.reads import Reads
    from registry import Settings
    from runner.record.recorder import Recorder
    from runner.resume.readiness import Lack, Readiness


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


async def lacks_by_tree(reads: Reads, database: Path, root: str | None = None) -> Mapping[str, tuple[Lack, ...]]:
    """What this environment lacks for interrupted trees, by top-level execution; only those that lack something."""
    from db.store.owners import is_alive

    gone = [owner for owner in await reads.open_owners(root) if not is_alive(database, owner)]
    if not gone:
        return {}
    ending = {each.root for each in await reads.interrupted.cancelled(gone, root)}
    here, found = _here(reads), dict[str, tuple["Lack", ...]]()
    for tree, needs in (await reads.interrupted.needs_by_tree(gone, root)).items():
        if tree not in ending and (lacks := await here.lacks(needs)):
            found[tree] = lacks
    return found


def _here(reads: Reads) -> Readiness:
    from registry import restore
    from runner.resume.readiness import Readiness

    async def settings(_hash: str, body: str) -> Settings:
        return restore(body, os.environ)

    return Readiness(os.environ, reads.snapshot, settings)
