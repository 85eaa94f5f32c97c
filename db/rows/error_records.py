"""Error records: which errors occurred, how often, and the state of their fix.

Knows the table and the view `errors`; does not know what an error means. Units are applied by `db/store/writer.py`.
Invariant: the same error of the same agent is one counted record; a fixed error that recurs is open again.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Executable, bindparam, case, column, func, select, table, tuple_, update
from sqlalchemy.dialects.sqlite import insert as upsert

from db.clock import stamp
from db.ids import PATTERN, new_id
from db.store.unit import Statement, Write
from db.tables import error_records, executions, meanings

Row = Mapping[str, Any]


class FixStatus(StrEnum):
    """The state of an error's fix."""

    NOT_ADDRESSED = "not_addressed"
    PLANNED = "planned"
    IN_PROGRESS = "in_progress"
    FIXED = "fixed"


FIELDS = (
    *("id", "timestamp", "type", "severity", "context", "message", "stack_trace", "fix_status", "fix_plan_ref"),
    *("fix_task_ref", "recurrence_count", "first_seen", "last_seen", "related_errors"),
)
"""The columns of each row."""

SAME = 200
"""Characters of a message that make two errors of one agent the same."""
_IDS = re.compile(rf"{PATTERN.pattern}|sess_\d+_[a-z0-9]{{6}}")
"""Ids, which differ each time and are ignored in comparison."""


@dataclass(frozen=True, slots=True)
class NewError:
    """An error to record."""

    execution: str
    type: str
    severity: str
    message: str
    context: Mapping[str, Any]
    stack_trace: str | None = None
    same: str | None = None
    """The text that identifies the error; None: its message."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change to an error's fix; None leaves a field as it is."""

    error: str
    status: FixStatus
    plan: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorPageFilter:
    """The errors of a page; None does not filter."""

    principal: str | None = None
    execution: str | None = None
    kind: str | None = None
    agent: str | None = None
    severity: str | None = None
    only_open: bool = False
    before: tuple[str, str] | None = None
    """When the last one of the page before was last seen, and its id."""


_RECORD = upsert(error_records)
_RECORD = _RECORD.on_conflict_do_update(
    index_elements=["fingerprint"],
    set_={
        "recurrence_count": error_records.c.recurrence_count + 1,
        "last_seen": _RECORD.excluded.last_seen,
        "execution_id": _RECORD.excluded.execution_id,
        "message": _RECORD.excluded.message,  # the same error may have another message
        "context": _RECORD.excluded.context,  # of the same execution, so that both are deleted with it
        "stack_trace": _RECORD.excluded.stack_trace,
        "fix_status": case(
            (error_records.c.fix_status == FixStatus.FIXED.value, FixStatus.NOT_ADDRESSED.value),
            else_=error_records.c.fix_status,
        ),
    },
)

_FIX = (
    update(error_records)
    .where(error_records.c.id == bindparam("error"))
    .values(
        fix_status=bindparam("status"),
        fix_plan_ref=func.coalesce(bindparam("plan"), error_records.c.fix_plan_ref),
        fix_task_ref=func.coalesce(bindparam("task"), error_records.c.fix_task_ref),
    )
)


def record(new: NewError) -> Write:
    """Record an error; a repeated one only increases the count."""
    at = stamp()
    row = {
        "id": new_id(),
        "fingerprint": f"{new.type}|{new.context.get('agent', '')}|{_IDS.sub('…', new.same or new.message)[:SAME]}",
        "execution_id": new.execution,
        "type": new.type,
        "severity": new.severity,
        "message": new.message,
        "context": to_json(new.context).decode(),
        "stack_trace": new.stack_trace,
        "fix_status": FixStatus.NOT_ADDRESSED.value,
        "fix_plan_ref": None,
        "fix_task_ref": None,
        "recurrence_count": 1,
        "first_seen": at,
        "last_seen": at,
    }
    return Write([Statement(_RECORD, row)])


def fix(done: Fix) -> Write:
    """Change an error's fix; refused when there is no error with that id."""
    values = {"error": done.error, "status": done.status.value, "plan": done.plan, "task": done.task}
    return Write([Statement(_FIX, values, guard=True)])


_view = table("errors", *map(column, (*FIELDS, "execution_id")))


class ErrorRecords:
    """Queries over the errors of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def listed(self, kind: str | None = None, *, only_open: bool = False) -> list[Row]:
        """Errors, last seen first; optionally of one type, or only open ones."""
        query = select(_view)
        if kind is not None:
            query = query.where(_view.c.type == kind)
        if only_open:
            query = query.where(_view.c.fix_status != FixStatus.FIXED.value)
        return await self._run(query.order_by(_view.c.last_seen.desc(), _view.c.id.desc()))

    async def page(self, wanted: ErrorPageFilter, limit: int) -> list[Row]:
        """A page of errors, last seen first, each with its execution; further ones have not been seen later."""
        context = func.json_extract(_view.c.context, "$.agent")
        query = select(_view)
        equal = {"type": wanted.kind, "severity": wanted.severity, "execution_id": wanted.execution}
        for name, value in equal.items():
            if value is not None:
                query = query.where(_view.c[name] == value)
        if wanted.agent is not None:
            query = query.where(context == wanted.agent)
        if wanted.only_open:
            query = query.where(_view.c.fix_status != FixStatus.FIXED.value)
        if wanted.principal is not None:
            mine = select(executions.c.id).where(executions.c.principal == wanted.principal)
            query = query.where(mine.where(executions.c.id == _view.c.execution_id).exists())
        if wanted.before is not None:
            query = query.where(tuple_(_view.c.last_seen, _view.c.id) < tuple_(*wanted.before))
        return await self._run(query.order_by(_view.c.last_seen.desc(), _view.c.id.desc()).limit(limit))

    async def named(self, given: str) -> list[Row]:
        """The errors that a whole or short id may mean."""
        for meant in meanings(_view.c.id, given):
            if found := await self._run(select(_view).where(meant).order_by(_view.c.id)):
                return found
        return []

    async def last_updated(self) -> str | None:
        """When an error was last seen; None if there is none."""
        found = await self._run(select(func.max(error_records.c.last_seen).label("at")))
        return found[0]["at"] if found else None
