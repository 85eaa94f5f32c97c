"""Trees that are cut off: a database as it was after some of the commits that were recorded while a tree was at work.

Owns: which commits, and what every promise says of a database. Must not know: what a test expects besides.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults.crash.scene import rows_of
from tests.faults.crash.seeds import SEED
from tests.properties.verdicts import PROMISES
from tests.support.write_ahead_log import Recording

RUNNING = "select id from executions where parent_execution_id is null and status = 'running'"

HOLDS = (
    "every execution has ended",
    "every execution has exactly one terminal event",
    "children end before their parents",
    "every child has exactly one delivery, in its parent's inbox",
    "one that completed has read everything",
    "own totals are the sums of the calls",
)


def cut_off(recording: Recording, folder: Path, many: int) -> Iterator[tuple[Path, str]]:
    """A database in a folder of its own for each of so many commits, or of all there are, and in words where that was."""
    commits = recording.commits
    random.Random(SEED).shuffle(commits)
    tried = 0
    for end in commits:
        place = folder / str(end)
        place.mkdir()
        cut = recording.cut(place, end)
        if tried < many and rows_of(cut, RUNNING):
            tried += 1
            yield cut, f"cut at {end}, seed {SEED}"
    assert tried >= min(many, 5), "too few commits at which the tree was at work"


def broken_promises(database: Path) -> dict[str, Any]:
    """What does not hold that always has to, once all has ended."""
    return {each: rows for each in HOLDS if (rows := rows_of(database, PROMISES[each]))}
