"""The SQL console: the tables and views with their columns, saved queries, and the rows of a question.

Owns the saved queries. Must not know: who may ask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread

from db.query.query import ROWS, relations
from server.views.columns import ViewModel

SAVED = (
    (
        "What ran, and what it cost",
        "select agent, status, subtree_tokens, subtree_cost_usd\nfrom execution_tree where depth = 0 order by id desc",
    ),
    (
        "The slowest executions",
        "select agent, round(own_seconds, 1) as seconds, path\nfrom execution_tree order by own_seconds desc limit 20",
    ),
    ("Cost by agent", "select * from agent_costs"),
    (
        "Tokens by day",
        "select substr(created_at, 1, 10) as day, sum(input_tokens + output_tokens) as tokens\nfrom executions group by 1",
    ),
    ("Tools that failed", "select * from tool_errors order by errors desc"),
    ("Calls with an unknown outcome", "select tool, arguments, error_type from tool_calls where status = 'unknown'"),
    ("The errors of today", "select * from errors limit 50"),
)
"""Title and statement."""
EXACT = 2**53
"""From here on JavaScript's numbers lose digits."""


class SqlRelation(ViewModel):
    """A table or a view."""

    name: str
    kind: str
    columns: list[str]


class SavedQuery(ViewModel):
    """A question to start from."""

    title: str
    sql: str


class SqlSchema(ViewModel):
    """What can be asked."""

    relations: list[SqlRelation]
    examples: list[SavedQuery]
    row_limit: int


class QueryTable(ViewModel):
    """The rows of a question."""

    columns: list[str]
    rows: list[dict[str, Any]]
    """An integer that JavaScript cannot hold, from 2^53 on, is text."""
    truncated: bool
    """There were more rows."""
    seconds: float


async def schema_of(database: Path) -> SqlSchema:
    """The tables and views of a database."""
    found = await anyio.to_thread.run_sync(relations, database)
    return SqlSchema(
        relations=[SqlRelation(name=each.name, kind=each.kind, columns=list(each.columns)) for each in found],
        examples=[SavedQuery(title=title, sql=sql) for title, sql in SAVED],
        row_limit=ROWS,
    )


def exact(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows with every integer that a browser would round as text."""
    return [{name: str(value) if _is_rounded(value) else value for name, value in row.items()} for row in rows]


def _is_rounded(value: Any) -> bool:
    return type(value) is int and not -EXACT < value < EXACT
