"""Lists: pages of executions, delegations and command calls, newest first; and the usual duration of an agent.

Owns these queries; `db/rows/reads.py` runs them. Invariant: each searches an index that also gives the order, so a page
costs the same for any number of executions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Executable, Select, column, func, literal_column, select, table

from db.ids import LAST
from db.status import ExecutionStatus
from db.tables import executions

Row = Mapping[str, Any]

RECENT = 20
"""The number of an agent's last executions that its usual duration is computed from."""
OWN = 1_000
"""The number of a principal's last executions that are searched for it: no index has both, and a read must stay short."""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """The executions of a list; None does not filter."""

    principal: str | None = None
    status: str | None = None
    agent: str | None = None
    only_roots: bool = False
    """Without children."""
    session: str | None = None
    since: str | None = None
    """The earliest id."""
    before: str | None = None
    """The last id of the previous page."""
    limit: int = 50


def listed(wanted: ListFilter) -> Select[Any]:
    """One page. Its ids are found in an index alone, so what does not match is passed over without its row."""
    query = select(executions.c.id).where(executions.c.id < (wanted.before if wanted.before is not None else LAST))
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
    page = query.order_by(executions.c.id.desc()).limit(wanted.limit).subquery("page")
    return select(executions).join(page, page.c.id == executions.c.id).order_by(page.c.id.desc())


def recently_completed(agent: str, principal: str | None) -> Select[Any, Any]:
    """Start and end of an agent's last completed executions; with a principal, among its latest ones."""
    looked_at: Any = executions
    if principal is not None:
        own = select(executions.c.id, executions.c.agent, executions.c.status).where(executions.c.principal == principal)
        looked_at = own.order_by(executions.c.id.desc()).limit(OWN).subquery()
    ids = select(looked_at.c.id).where(looked_at.c.agent == agent, looked_at.c.status == ExecutionStatus.COMPLETED.value)
    last = ids.order_by(looked_at.c.id.desc()).limit(RECENT).subquery("last")
    return select(executions.c.started_at, executions.c.finished_at).join(last, last.c.id == executions.c.id)


FIELDS = (
    *("session_id", "command", "subagent", "task_number", "language", "start_time", "timeout", "deadline", "status"),
    *("delegation_depth", "delegation_path"),
)
"""The columns of a delegation."""

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
        found = await self._run(query)  # sorted here: few are tracked, and SQLite would read all executions in order
        return sorted(found, key=lambda row: row["execution_id"])


LOOKED_AT = 100
"""The number of a caller's newest calls that are searched; an older unfinished call is not resumed."""


@dataclass(frozen=True, slots=True)
class CommandCaller:
    """The caller and the called agent."""

    agent: str
    principal: str | None
    user_id: str | None


class CommandCalls:
    """Queries over the calls of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def of(self, caller: CommandCaller) -> list[Row]:
        """A caller's calls of an agent, newest first."""
        mine: tuple[ColumnElement[Any], ...] = (
            executions.c.parent_execution_id.is_(None),
            executions.c.agent == caller.agent,
            func.coalesce(executions.c.principal, literal_column("''")) == (caller.principal or ""),
            func.coalesce(executions.c.user_id, "") == (caller.user_id or ""),
            literal_column("substr(executions.task, 1, 1) = '/'"),  # in the words of its index
        )
        return await self._run(select(executions).where(*mine).order_by(executions.c.id.desc()).limit(LOOKED_AT))
