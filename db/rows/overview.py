"""Many trees at once: the sums, prices, newest events and stages of top-level executions, each by one query.

Owns these queries; `db/rows/reads.py` runs them. Invariant: ids are given as one parameter and drive the query, so it
searches once a tree, whatever the number of trees in the database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Executable, case, func, literal_column, select

from db.rows.trees import TOKENS
from db.tables import each_of, events, executions, model_calls

Row = Mapping[str, Any]
Run = Callable[[Executable], Awaitable[list[Row]]]


def pricing_kind() -> ColumnElement[str]:
    """The kind of pricing of a model call: `rehearsed`, `priced` …; also of a call whose reply was lost."""
    return case((model_calls.c.rehearsed == 1, "rehearsed"), else_=model_calls.c.pricing).label("pricing")


def tells_stage() -> ColumnElement[bool]:
    """Whether an event names the stage of a chain: the words of its index, so that it is used."""
    return literal_column("events.type = 'execution.progress' AND json_extract(events.payload, '$.stage') IS NOT NULL")


class Overview:
    """Queries over the trees of some top-level executions."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def sums(self, roots: Sequence[str]) -> Mapping[str, Row]:
        """What each tree used: `executions`, how many have `ended`, `tokens` and `cost_usd`, by its top-level execution."""
        of = executions.c.root_execution_id
        tokens = func.sum(sum((executions.c[name] for name in TOKENS[1:]), executions.c[TOKENS[0]])).label("tokens")
        cost = func.sum(executions.c.cost_usd).label("cost_usd")
        ended = func.count(executions.c.finished_at).label("ended")
        query = select(of, func.count().label("executions"), ended, tokens, cost).where(of.in_(_given(roots)))
        return {row["root_execution_id"]: row for row in await self._run(query.group_by(of))}

    async def pricing(self, roots: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """The kinds of pricing of each tree's model calls."""
        of = executions.c.root_execution_id
        query = select(of, pricing_kind()).join(model_calls, model_calls.c.execution_id == executions.c.id).distinct()
        found: dict[str, frozenset[str]] = {}
        for row in await self._run(query.where(of.in_(_given(roots)))):
            found[row["root_execution_id"]] = found.get(row["root_execution_id"], frozenset()) | {row["pricing"]}
        return found

    async def last_events(self, roots: Sequence[str]) -> Mapping[str, Row]:
        """The newest event of each tree, with its agent."""
        of_tree = events.alias("of_tree")
        given = each_of(roots)
        newest = select(func.max(of_tree.c.seq)).where(of_tree.c.root_execution_id == given.c.value)
        query = (
            select(events, executions.c.agent)
            .select_from(given)
            .join(events, events.c.seq == newest.correlate(given).scalar_subquery())
            .join(executions, executions.c.id == events.c.execution_id)
        )
        return {row["root_execution_id"]: row for row in await self._run(query)}

    async def stages(self, roots: Sequence[str]) -> Mapping[str, str]:
        """The payload of the newest stage event of each top-level execution that is a chain."""
        mine = events.c.execution_id == events.c.root_execution_id
        query = select(events.c.execution_id, events.c.payload).where(
            events.c.root_execution_id.in_(_given(roots)), mine, tells_stage()
        )
        return {row["execution_id"]: row["payload"] for row in await self._run(query.order_by(events.c.seq))}


def _given(roots: Sequence[str]) -> Any:
    return select(each_of(roots).c.value)
