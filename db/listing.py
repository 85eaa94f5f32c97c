"""Lists of executions, newest first, page by page; and how long an agent usually takes.

Owns these queries; `db/reads.py` runs them. Invariant: each is a search in an index that also gives the order, so a page
costs the same however many executions there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select

from db.ids import LAST
from db.status import ExecutionStatus
from db.tables import executions

RECENT = 20
"""As many of an agent's last executions tell how long it usually takes."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which executions a list is to show. What is None does not matter."""

    principal: str | None = None
    status: str | None = None
    agent: str | None = None
    only_roots: bool = False
    """Without what executions started themselves."""
    before: str | None = None
    """The last id of the page before."""
    limit: int = 50


def listed(wanted: Wanted) -> Select[Any]:
    """One page."""
    query = select(executions).where(executions.c.id < (wanted.before if wanted.before is not None else LAST))
    for column, value in (("principal", wanted.principal), ("status", wanted.status), ("agent", wanted.agent)):
        if value is not None:
            query = query.where(executions.c[column] == value)
    if wanted.only_roots:
        query = query.where(executions.c.parent_execution_id.is_(None))
    return query.order_by(executions.c.id.desc()).limit(wanted.limit)


def recently_completed(agent: str) -> Select[Any, Any]:
    """When the last executions of an agent that completed began and ended."""
    query = select(executions.c.started_at, executions.c.finished_at).where(
        executions.c.agent == agent, executions.c.status == ExecutionStatus.COMPLETED.value
    )
    return query.order_by(executions.c.id.desc()).limit(RECENT)
