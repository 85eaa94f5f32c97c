"""What must be true of a voyage at rest: it is one tree of five levels, and whatever was decided in it was decided once.

Owns: the invariants of what nests, as `tests/faults/crash/history.py` has the others. Must not know: as there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.faults.crash.voyage import ADMIRAL, LEVELS, TASKS

if TYPE_CHECKING:
    from tests.faults.crash.history import History

_SEATS = {
    "Helm": ["plan"],
    "Chart": ["plan.1"],
    "Voyage": ["v"],
    "Compass": ["plan.1", "plan.2", "plan.3"],
    "Captain": ["task.1", "task.2", "task.3"],
    "Herald": ["completer"],
    "Log": ["composer"],
}
"""Who works for a strategy, and in which seats."""


def levels_are_one_tree(history: History) -> list[str]:
    """Everybody has one seat, below whom they work for and one level deeper; no decision is made twice or told twice."""
    if history.agent != ADMIRAL:
        return []
    rows = history.executions
    seats = {name: sorted(row["step_id"] for row in rows.values() if row["agent"] == name) for name in _SEATS}
    found = [f"the seats are {seats}"] if seats != _SEATS else []
    found += [
        f"{row['path']} is at depth {row['depth']}"
        for row in rows.values()
        if row["depth"] != row["path"].count("/") or rows.get(row["parent_execution_id"], row)["depth"] > row["depth"]
    ]
    deepest = {row["path"] for row in rows.values() if row["depth"] == len(LEVELS) - 1 and row["agent"] == LEVELS[-1]}
    found += [f"the bottom is {deepest}"] if deepest != {"/".join(LEVELS)} else []
    told = history.sql("select payload from events where type = 'iterate.decided' order by seq")
    decided = [json.loads(row["payload"])["tasks"] for row in told]
    return found + ([f"it was decided: {decided}"] if decided != [[TASKS[0]], list(TASKS[1:]), []] else [])
