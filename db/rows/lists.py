"""Lists of executions, newest first, page by page; and how long an agent usually takes.

Owns these queries; `db/rows/reads.py` runs them. Invariant: each is a search in an index that also gives the order, so
a page costs the same however many executions there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, Select, column, func, select, table

from db.ids import LAST
from db.status import ExecutionStatus
from db.tables import executions

Row = Mapping[str, Any]

RECENT = 20
"""As many of an agent's last executions tell how long it usually takes."""
OWN = 1_000
"""As many of a principal's last executions are looked at for that: no index has both, and a look must stay short."""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which executions a list is to show. What is None does not matter."""

    principal: str | None = None
    status: str | None = None
    agent: str | None = None
    only_roots: bool = False
    """Without what executions started themselves."""
    session: str | None = None
    since: str | None = None
    """No id before this one."""
    before: str | None = None
    """The last id of the page before."""
    limit: int = 50


def listed(wanted: ListFilter) -> Select[Any]:
    """One page."""
    query = select(executions).where(executions.c.id < (wanted.before if wanted.before is not None else LAST))
    if wanted.since is not None:
        query = query.where(executions.c.id >= wanted.since)
    equal = {
        "principal": wanted.principal,
        "session_id": wanted.session,
        "status": wanted.status,
        "agent": wanted.agent,
    }
    for name, value in equal.items():
        if value is not None:
            query = query.where(executions.c[name] == value)
    if wanted.only_roots:
        query = query.where(executions.c.parent_execution_id.is_(None))
    return query.order_by(executions.c.id.desc()).limit(wanted.limit)


def recently_completed(agent: str, principal: str | None) -> Select[Any, Any]:
    """When the last executions of an agent that completed began and ended; of a principal's, of its latest ones."""
    looked_at: Any = executions
    if principal is not None:
        own = select(executions).where(executions.c.principal == principal)
        looked_at = own.order_by(executions.c.id.desc()).limit(OWN).subquery()
    query = select(looked_at.c.started_at, looked_at.c.finished_at).where(
        looked_at.c.agent == agent, looked_at.c.status == ExecutionStatus.COMPLETED.value
    )
    return query.order_by(looked_at.c.id.desc()).limit(RECENT)


FIELDS = (
    *("session_id", "command", "subagent", "task_number", "language", "start_time", "timeout", "deadline", "status"),
    *("delegation_depth", "delegation_path"),
)
"""What is told of each."""

_view = table("delegations", *map(column, (*FIELDS, "execution_id", "principal")))


class Delegations:
    """Queries over the delegations of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def tracked(self, principal: str | None = None) -> list[Row]:
        """All of them, or those of one principal, in the order they were made."""
        query = select(*(_view.c[name] for name in ("execution_id", *FIELDS)))
        if principal is not None:
            query = query.where(_view.c.principal == principal)
        return await self._run(query.order_by(_view.c.execution_id))


LOOKED_AT = 100
"""The newest calls of somebody: what was left behind longer ago is begun anew."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who called, and whom."""

    agent: str
    principal: str | None
    user_id: str | None


class CommandCalls:
    """Queries over the calls of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def of(self, caller: Caller) -> list[Row]:
        """The newest calls of somebody to an agent, newest first."""
        mine = (
            executions.c.parent_execution_id.is_(None),
            executions.c.agent == caller.agent,
            func.coalesce(executions.c.principal, "") == (caller.principal or ""),
            func.coalesce(executions.c.user_id, "") == (caller.user_id or ""),
            func.substr(executions.c.task, 1, 1) == "/",
        )
        return await self._run(select(executions).where(*mine).order_by(executions.c.id.desc()).limit(LOOKED_AT))
