"""One tree: its rows in order, and the sums of every subtree in it.

Owns the query and the sums; `db/rows/reads.py` runs the query. The view `execution_tree` has the same sums for SQL, and
walks each subtree for each of them; here they are added up once, from the leaves to the top. A test proves that both agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, func, select

from db.clock import moment
from db.tables import below, executions

Row = Mapping[str, Any]

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
"""The columns whose sum is the tokens of an execution."""
SUMMED = {"seconds": "own_seconds", "tokens": "own_tokens", "cost_usd": "cost_usd", "executions": None}
"""What is summed over a subtree, and the column that it is summed from; executions are counted."""


def tree_query(top: str) -> Select[Any]:
    """An execution and everything below it, older ones first, each with the level of the execution."""
    up = select(executions.c.parent_execution_id.label("parent")).where(executions.c.id == top).cte("up", recursive=True)
    above = executions.alias("above")
    up = up.union_all(select(above.c.parent_execution_id).where(above.c.id == up.c.parent))
    level = select(func.count(up.c.parent)).scalar_subquery().label("level")
    query = select(executions, level).where(executions.c.id.in_(select(below(top).c.id)))
    return query.order_by(executions.c.created_at, executions.c.position)


def summed(found: Sequence[Row], top: str) -> list[Row]:
    """The rows of a tree, parents before children, siblings in order, with their levels and the sums of their subtrees."""
    now = datetime.now(UTC)
    rows: list[dict[str, Any]] = [
        {
            **row,
            "level": row["level"] + above,
            "own_seconds": _seconds(row, now),
            "own_tokens": sum(row[name] for name in TOKENS),
        }
        for row, above in depth_first(found, top)
    ]
    by_id = {row["id"]: row for row in rows}
    for row in rows:
        for name, own in SUMMED.items():
            row[f"subtree_{name}"] = row[own] if own is not None else 1
    for row in reversed(rows):
        if row["id"] != top:
            parent = by_id[row["parent_execution_id"]]
            for name in SUMMED:
                parent[f"subtree_{name}"] += row[f"subtree_{name}"]
    return [*rows]


def _seconds(row: Row, now: datetime) -> float:
    """How long an execution has run; a clock that was set back makes no negative time."""
    if row["started_at"] is None:
        return 0.0
    ended = moment(row["finished_at"]) if row["finished_at"] is not None else now
    return max(0.0, (ended - moment(row["started_at"])).total_seconds())


def depth_first(rows: Sequence[Row], top: str) -> list[tuple[Row, int]]:
    """The rows in order, each with the number of rows above it."""
    children: dict[str | None, list[Row]] = {}
    for row in rows:
        children.setdefault(row["parent_execution_id"] if row["id"] != top else None, []).append(row)
    ordered: list[tuple[Row, int]] = []
    waiting = [(row, 0) for row in children.get(None, ())]
    while waiting:
        row, level = waiting.pop()
        ordered.append((row, level))
        waiting += [(child, level + 1) for child in reversed(children.get(row["id"], ()))]
    return ordered
