"""Interrupted trees: the requirements of open executions whose processes have ended. Read models, as in `db/rows/reads.py`.

Many executions need the same, so needs are read once for all of them; needs by tree are read only when one is not met.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Executable, Select, exists, func, select

from db.tables import executions, model_calls

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Need:
    """The configuration, agent and model that an open execution needs to resume."""

    config_hash: str | None
    agent: str
    """Its configured name: the last one of its path."""
    strategy: str
    model: str | None
    """The model's id at its provider."""
    is_root: bool
    asked: bool
    """Whether it has called a real model, so that a rehearsal must not continue it."""


@dataclass(frozen=True, slots=True)
class CancelledTree:
    """A tree that was asked to stop before its process ended."""

    root: str
    by: str
    reason: str


class InterruptedTrees:
    """Queries over the open executions of some owners."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def needs(self, owners: Sequence[str], root: str | None = None) -> set[Need]:
        """The needs of their open executions, of one tree or of all."""
        return {_need(row) for row in await self._run(_open(owners, root, *_COLUMNS).distinct())}

    async def needs_by_tree(self, owners: Sequence[str], root: str | None = None) -> Mapping[str, set[Need]]:
        """The same for each top-level execution."""
        found: dict[str, set[Need]] = {}
        for row in await self._run(_open(owners, root, executions.c.root_execution_id, *_COLUMNS).distinct()):
            found.setdefault(row["root_execution_id"], set()).add(_need(row))
        return found

    async def cancelled(self, owners: Sequence[str], root: str | None = None) -> list[CancelledTree]:
        """The trees that were asked to stop as a whole: ending them needs no configuration."""
        wish = executions.c.id, executions.c.cancelled_by, executions.c.cancel_reason
        query = _open(owners, root, *wish).where(
            executions.c.parent_execution_id.is_(None), executions.c.cancel_requested_at.is_not(None)
        )
        return [
            CancelledTree(row["id"], row["cancelled_by"] or "", row["cancel_reason"] or "")
            for row in await self._run(query)
        ]

    async def fingerprint(self, owners: Sequence[str]) -> frozenset[tuple[str, int, int]]:
        """A value that changes whenever one of their executions ends, is adopted, or is asked to stop."""
        asked = func.count(executions.c.cancel_requested_at).label("asked")
        query = _open(owners, None, executions.c.owner, func.count().label("open"), asked)
        rows = await self._run(query.group_by(executions.c.owner))
        return frozenset((row["owner"], row["open"], row["asked"]) for row in rows)


_asked = exists().where(model_calls.c.execution_id == executions.c.id, model_calls.c.rehearsed == 0)
_COLUMNS = (
    executions.c.config_hash,
    executions.c.path,
    executions.c.strategy,
    executions.c.model,
    executions.c.parent_execution_id.is_(None).label("is_root"),
    _asked.label("asked"),
)


def _open(owners: Sequence[str], root: str | None, *columns: Any) -> Select[Any]:
    query = cast("Select[Any]", select(*columns))  # of any columns: type checkers disagree about its type
    query = query.where(executions.c.finished_at.is_(None), executions.c.owner.in_(owners))
    return query if root is None else query.where(executions.c.root_execution_id == root)


def _need(row: Row) -> Need:
    agent = row["path"].rpartition("/")[2]
    return Need(row["config_hash"], agent, row["strategy"], row["model"], bool(row["is_root"]), bool(row["asked"]))
