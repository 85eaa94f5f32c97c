"""The events of all trees, in the order of their numbers: what a stream to many listeners is replayed from.

Owns these queries; `db/rows/reads.py` runs them. Invariant: a page is bounded, and the pages of a stretch contain each of
its events once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, Select, func, select

from db.tables import below, events, executions, newest_event

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EventRange:
    """The events of a stretch: after one number, up to another."""

    after: int
    up_to: int
    root: str | None = None
    """Of this tree."""
    top: str | None = None
    """Of this execution of the tree and everything below it."""
    principal: str | None = None
    """Of the trees of this principal."""


class StoredEvents:
    """Queries over the events of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def newest(self) -> int:
        """The number of the newest event, also if it was deleted; 0 without any."""
        [row] = await self._run(select(newest_event().label("seq")))
        return int(row["seq"])

    async def newest_of(self, root: str) -> int:
        """The number of a tree's newest event; 0 without any."""
        [row] = await self._run(select(func.max(events.c.seq).label("seq")).where(events.c.root_execution_id == root))
        return row["seq"] or 0

    async def page(self, wanted: EventRange, limit: int) -> list[Row]:
        """The first events of a stretch, in order."""
        return await self._run(_stretch(wanted).order_by(events.c.seq).limit(limit))

    async def below(self, top: str) -> set[str]:
        """The ids of an execution and everything below it."""
        return {row["id"] for row in await self._run(select(below(top).c.id))}


def _stretch(wanted: EventRange) -> Select[Any]:
    query = select(events).where(events.c.seq > wanted.after, events.c.seq <= wanted.up_to)
    if wanted.root is not None:
        query = query.where(events.c.root_execution_id == wanted.root)
    if wanted.top is not None and wanted.top != wanted.root:
        query = query.where(events.c.execution_id.in_(select(below(wanted.top).c.id)))
    if wanted.principal is not None:
        root = executions.alias("root")
        query = query.join(root, root.c.id == events.c.root_execution_id).where(root.c.principal == wanted.principal)
    return query
