"""What interrupted trees wait for here, for commands that only look: `ps`, `doctor`, and `resume` before it begins.

Owns the way from rows and this environment to `runner.resume.readiness`. It does not know how the answer is shown.
Invariant: looking changes nothing, and where nothing is interrupted nothing heavy is imported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from db.rows.reads import Reads
    from registry import Settings
    from runner.resume.readiness import Here, Lack


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


def _here(reads: Reads) -> Here:
    from registry import restore
    from runner.resume.readiness import Here

    async def settings(_hash: str, body: str) -> Settings:
        return restore(body, os.environ)

    return Here(os.environ, reads.snapshot, settings)
