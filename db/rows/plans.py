"""Plans: every version of an execution's plan. Table, writes and reads.

Does not know how a plan is made. Units are applied by `db/store/writer.py`, queries run by `db/rows/reads.py`. A step is an
execution of its own: the plan holds its definition, the execution its result.
"""

# SQLModel declares `__tablename__` with another type than the text it expects.
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Executable, Index, Text, and_, bindparam, exists, func, select, update
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlmodel import Field, SQLModel

from db.clock import stamp
from db.rows.transcript import fenced
from db.status import ExecutionStatus
from db.store.unit import Event, Statement, Write
from db.tables import below, columns_of, executions, messages, unindexed

Row = Mapping[str, Any]


class PlanStatus(StrEnum):
    """The status of a version of a plan."""

    PLANNING = "planning"
    EXECUTING = "executing"
    REPLANNING = "replanning"
    """Another version replaces it."""
    COMPLETED = "completed"
    FAILED = "failed"


class PlanRow(SQLModel, table=True):
    """One version of a plan; lists and objects are JSON."""

    __tablename__ = "plans"
    __table_args__ = (Index("plans_of_execution", "execution_id", "version", unique=True),)

    id: str = Field(primary_key=True)
    execution_id: str
    version: int
    status: str
    request: str = Field(sa_type=Text)
    analysis: str = Field(sa_type=Text)
    resolved_values: str = Field(sa_type=Text)
    steps: str = Field(sa_type=Text)
    response_hint: str = Field(sa_type=Text)
    trigger: str | None = Field(default=None, sa_type=Text)
    created_at: str
    updated_at: str


plans = SQLModel.metadata.tables["plans"]


@dataclass(frozen=True, slots=True)
class NewPlan:
    """A version to store."""

    id: str
    execution_id: str
    version: int
    status: PlanStatus
    request: str
    analysis: str = ""
    resolved_values: str = "{}"
    steps: str = "[]"
    response_hint: str = ""
    trigger: str | None = None


_KEEP = upsert(plans)
_KEEP = _KEEP.on_conflict_do_update(
    index_elements=["id"],
    set_={
        name: _KEEP.excluded[name]
        for name in ("status", "analysis", "resolved_values", "steps", "response_hint", "trigger", "updated_at")
    },
)

_MARK = (
    update(plans)
    .where(plans.c.execution_id == bindparam("of"), plans.c.version == bindparam("number"))
    .values(status=bindparam("now_is"), updated_at=bindparam("at"))
)

_OVER = (PlanStatus.COMPLETED.value, PlanStatus.FAILED.value)
_GIVE_UP = _MARK.where(plans.c.status.not_in(_OVER))


def keep(plan: NewPlan, attempt: int, events: Sequence[Event]) -> Write:
    """Store or update a version; refused once another process owns its execution."""
    at = stamp()
    guard = fenced(plan.execution_id, attempt)
    return Write([guard, Statement(_KEEP, {**columns_of(plan), "created_at": at, "updated_at": at})], events)


def mark(execution: str, attempt: int, version: int, status: PlanStatus, events: Sequence[Event]) -> Write:
    """Set the status of a version; refused once another process owns its execution."""
    guard = fenced(execution, attempt)
    values = {"of": execution, "number": version, "now_is": status.value, "at": stamp()}
    return Write([guard, Statement(_MARK, values)], events)


def give_up(execution: str, attempt: int, version: int, events: Sequence[Event]) -> Write:
    """Mark an abandoned version as failed; refused once it has ended, or another process owns its execution."""
    guard = fenced(execution, attempt)
    values = {"of": execution, "number": version, "now_is": PlanStatus.FAILED.value, "at": stamp()}
    return Write([guard, Statement(_GIVE_UP, values, guard=True)], events)


@dataclass(frozen=True, slots=True)
class SameStep:
    """The properties that make two steps the same."""

    agent: str
    user_id: str | None
    principal: str | None
    config_hash: str | None
    first: str
    """JSON of its first message."""
    since: str


class Plans:
    """Queries over the plans of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def of(self, execution: str) -> list[Row]:
        """All versions of an execution's plan, in order."""
        return await self._run(select(plans).where(plans.c.execution_id == execution).order_by(plans.c.version))

    async def under_way(self, top: str, *, ended: bool = True) -> list[Row]:
        """The newest versions of a subtree that have not ended, with places; of ended executions, or of all."""
        place = [executions.c[name] for name in ("parent_execution_id", "root_execution_id", "session_id", "attempt")]
        newer = plans.alias("newer")
        newest = ~exists().where(newer.c.execution_id == plans.c.execution_id, newer.c.version > plans.c.version)
        query = select(plans, *place).join(executions, executions.c.id == plans.c.execution_id)
        query = query.where(plans.c.status.not_in(_OVER), newest, executions.c.id.in_(select(below(top).c.id)))
        return await self._run(query.where(executions.c.finished_at.is_not(None)) if ended else query)

    async def attempts(self, execution: str) -> Mapping[str, int]:
        """How often each child of an execution was retried, for those that were."""
        again = (messages.c.kind == "task", messages.c.position > 0, executions.c.parent_execution_id == execution)
        query = select(messages.c.execution_id, func.count().label("times")).join(
            executions, executions.c.id == messages.c.execution_id
        )
        return {
            row["execution_id"]: row["times"]
            for row in await self._run(query.where(*again).group_by(messages.c.execution_id))
        }

    async def same_step(self, like: SameStep) -> Row | None:
        """The newest recently completed step of the same agent, user and principal with the same first message, or None."""
        query = (
            select(executions)
            .join(messages, and_(messages.c.execution_id == executions.c.id, messages.c.position == 0))
            .where(
                unindexed(executions.c.agent) == like.agent,
                executions.c.role == "step",
                unindexed(executions.c.status) == ExecutionStatus.COMPLETED.value,
                executions.c.outcome == "completed",
                executions.c.config_hash == like.config_hash,
                unindexed(executions.c.user_id).is_not_distinct_from(like.user_id),
                unindexed(executions.c.principal).is_not_distinct_from(like.principal),
                executions.c.finished_at >= like.since,
                messages.c.content == like.first,
            )
        )
        found = await self._run(query.order_by(unindexed(executions.c.id).desc()).limit(1))
        return found[0] if found else None
