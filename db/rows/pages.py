"""Pages of executions: newest first, what ended badly, what is open, what a search finds, and how many there are.

Owns these queries; `db/rows/reads.py` runs them. Invariant: each searches an index, and a search by words looks at a
bounded number of rows, so that a page costs the same for any number of executions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Executable, Select, case, func, literal_column, or_, select, tuple_

from db.ids import LAST
from db.rows.outlines import OUTLINE
from db.status import OPEN
from db.tables import each_of, executions, unindexed

Row = Mapping[str, Any]

LOOKED_AT = 5_000
"""The executions that one search by words looks at."""
MOST_OPEN = 10_000

_OPEN = sorted(status.value for status in OPEN)
_ROOT = executions.c.parent_execution_id.is_(None)
_BADLY: ColumnElement[bool] = literal_column(
    "executions.parent_execution_id IS NULL AND executions.finished_at IS NOT NULL "
    "AND (executions.status IN ('blocked', 'failed', 'timed_out') OR executions.reason IN ('cost_budget', 'token_budget'))"
)
"""In the words of its index."""


@dataclass(frozen=True, slots=True)
class PageFilter:
    """The executions of a page; None does not filter."""

    principal: str | None = None
    status: str | None = None
    agent: str | None = None
    only_roots: bool = True
    ended_before: str | None = None
    """Only ended ones, without those that ended badly since this time."""
    before: str | None = None
    """The last id of the page before."""


class Pages:
    """Queries over the executions of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def ids(self, wanted: PageFilter, limit: int) -> list[str]:
        """The ids of a page, newest first; found in an index alone."""
        query = select(executions.c.id).where(executions.c.id < (wanted.before if wanted.before is not None else LAST))
        for name in ("principal", "status", "agent"):
            if (value := getattr(wanted, name)) is not None:
                query = query.where(executions.c[name] == value)
        if wanted.only_roots:
            query = query.where(_ROOT)
        if wanted.ended_before is not None:
            badly = select(executions.c.id).where(_BADLY, executions.c.finished_at >= wanted.ended_before)
            query = query.where(executions.c.status.not_in(_OPEN), executions.c.id.not_in(badly.correlate(None)))
        return [row["id"] for row in await self._run(query.order_by(executions.c.id.desc()).limit(limit))]

    async def matching(self, identifiers: Sequence[str], words: str) -> list[str]:
        """Those of these executions whose task or agent contains the words, newest first."""
        given = each_of(identifiers)
        like = f"%{words.replace('!', '!!').replace('%', '!%').replace('_', '!_')}%"
        contains = or_(executions.c.task.like(like, escape="!"), executions.c.agent.like(like, escape="!"))
        query = select(executions.c.id).select_from(given).join(executions, executions.c.id == given.c.value)
        return [row["id"] for row in await self._run(query.where(contains).order_by(executions.c.id.desc()))]

    async def rows(self, identifiers: Sequence[str]) -> list[Row]:
        """The outlines of these executions, in this order."""
        query = select(*OUTLINE).where(executions.c.id.in_(select(each_of(identifiers).c.value)))
        found = {row["id"]: row for row in await self._run(query)}
        return [found[each] for each in identifiers if each in found]

    async def open_roots(self, principal: str | None = None) -> list[Row]:
        """The open top-level executions, newest first: few executions are open, and many are top-level."""
        names = ("id", "owner", "agent", "status")
        query = select(*(executions.c[name] for name in names)).where(
            executions.c.status.in_(_OPEN), unindexed(executions.c.parent_execution_id).is_(None)
        )
        if principal is not None:
            query = query.where(unindexed(executions.c.principal) == principal)
        return await self._run(query.order_by(executions.c.id.desc()).limit(MOST_OPEN))

    async def ended_badly(
        self, since: str, wanted: PageFilter, before: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """The end and the id of top-level executions that ended badly since a time, last ended first."""
        query = self._badly(since, wanted.principal)
        for name in ("status", "agent"):
            if (value := getattr(wanted, name)) is not None:
                query = query.where(unindexed(executions.c[name]) == value)
        if before is not None:
            query = query.where(tuple_(executions.c.finished_at, executions.c.id) < tuple_(*before))
        query = query.order_by(executions.c.finished_at.desc(), executions.c.id.desc()).limit(limit)
        return [(row["finished_at"], row["id"]) for row in await self._run(query)]

    async def count_ended_badly(self, since: str, principal: str | None = None) -> int:
        """How many there are."""
        found = await self._run(select(func.count().label("n")).select_from(self._badly(since, principal).subquery()))
        return int(found[0]["n"])

    async def count_ended(self, principal: str | None = None) -> int:
        """How many top-level executions have ended."""
        query = select(func.sum(case((executions.c.status.in_(_OPEN), 0), else_=1)).label("n")).where(_ROOT)
        if principal is not None:
            query = query.where(executions.c.principal == principal)
        return int((await self._run(query))[0]["n"] or 0)

    def _badly(self, since: str, principal: str | None) -> Select[Any, Any]:
        query = select(executions.c.finished_at, executions.c.id).where(_BADLY, executions.c.finished_at >= since)
        return query if principal is None else query.where(unindexed(executions.c.principal) == principal)
