"""What people are asked: the open questions, and what became of others. Read models, as in `db/reads.py`, which runs them.

A question is open while the call it is about waits in an execution that runs and is not asked to stop, until it expires.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Executable, FromClause, exists, func, literal, select

from db.clock import stamp
from db.naming import meanings
from db.status import ExecutionStatus
from db.tables import approvals, below, executions, tool_calls

Row = Mapping[str, Any]

_OF_EXECUTION = (executions.c.agent, executions.c.parent_execution_id, executions.c.session_id)
_ABOUT = (*_OF_EXECUTION, tool_calls.c.server, tool_calls.c.arguments)


def starts(call: ColumnElement[str], step: FromClause) -> ColumnElement[bool]:
    """Whether a call is the one that starts a step of a plan: such a call is named by the plan and the step."""
    return call == step.c.parent_execution_id.concat(literal(".")).concat(step.c.step_id)


def asked_about() -> ColumnElement[bool]:
    """Whether a question is undecided about a call of an execution of the statement, or about whether it may start."""
    of_it = (approvals.c.execution_id == executions.c.id) | starts(approvals.c.tool_call_id, executions)
    in_tree = approvals.c.root_execution_id == executions.c.root_execution_id  # which has an index
    undecided = select(approvals.c.id).where(in_tree, approvals.c.decision.is_(None), of_it)
    return exists(undecided.correlate(executions))


def asked_to_repeat(call: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a person was ever to say if a call that a crash had cut may run again."""
    return exists().where(approvals.c.tool_call_id == call, approvals.c.kind == "repeat")


_step = executions.alias("step")
_STARTS_STEP = _step.c.parent_execution_id == approvals.c.execution_id, starts(approvals.c.tool_call_id, _step)


def _concerns(top: str, *, steps: bool = True) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The questions about an execution and everything below it: about their calls, and whether they may start as steps."""
    own = executions.alias("own")
    root = select(own.c.root_execution_id).where(own.c.id == top).scalar_subquery()
    subtree = select(below(top).c.id)
    about: ColumnElement[bool] = approvals.c.execution_id.in_(subtree)
    if steps:
        about |= exists().where(*_STARTS_STEP, _step.c.id.in_(subtree))
    return approvals.c.root_execution_id == root, about


class Questions:
    """Queries over the approvals of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def open(self, top: str | None = None) -> list[Row]:
        """Those that wait for an answer, oldest first, with the call each is about and the agent that wants to make it.

        Everywhere or from one execution down. `step_execution_id` is the step of a plan that may not start before the
        answer.
        """
        step = select(_step.c.id).where(*_STARTS_STEP).scalar_subquery().label("step_execution_id")
        query = (
            select(approvals, *_ABOUT, step)
            .join(executions, executions.c.id == approvals.c.execution_id)
            .join(tool_calls, tool_calls.c.id == approvals.c.tool_call_id)
            .where(approvals.c.decision.is_(None), approvals.c.expires_at > stamp(), tool_calls.c.status == "waiting")
            .where(executions.c.status == ExecutionStatus.RUNNING.value, executions.c.cancel_requested_at.is_(None))
        )
        if top is not None:
            query = query.where(*_concerns(top))
        return await self._run(query.order_by(approvals.c.id))

    async def of_call(self, call: str) -> list[Row]:
        """What was asked about a tool call, newest first."""
        query = select(approvals).where(approvals.c.tool_call_id == call)
        return await self._run(query.order_by(approvals.c.id.desc()))

    async def those(self, ids: Sequence[str]) -> list[Row]:
        """These, answered or not."""
        return await self._run(select(approvals).where(approvals.c.id.in_(ids)))

    async def decided(self, top: str) -> list[Row]:
        """Those from one execution down that were decided or have expired, the latest first."""
        query = select(approvals).where(*_concerns(top), approvals.c.decision.is_not(None))
        return await self._run(query.order_by(approvals.c.decided_at.desc()))

    async def named(self, given: str) -> list[Row]:
        """Those that an id may mean, answered or not: the whole of it, its beginning, or else its end."""
        for meant in meanings(approvals.c.id, given):
            if found := await self._run(select(approvals).where(meant).order_by(approvals.c.id)):
                return found
        return []

    async def undecided(self, top: str) -> list[Row]:
        """Those of one execution and everything below it that have no decision, whatever became of the executions."""
        names = ("parent_execution_id", "session_id", "attempt", "finished_at")
        of = [executions.c[name] for name in names]
        query = select(approvals, *of).join(executions, executions.c.id == approvals.c.execution_id)
        return await self._run(query.where(*_concerns(top, steps=False), approvals.c.decision.is_(None)))

    async def waiting(self, root: str) -> Mapping[str, Row]:
        """The executions of a tree that wait for a person, answered meanwhile or not: `since` when, and `until` when."""
        since, until = func.min(approvals.c.requested_at).label("since"), func.min(approvals.c.expires_at).label("until")
        query = (
            select(approvals.c.execution_id, since, until)
            .join(tool_calls, tool_calls.c.id == approvals.c.tool_call_id)
            .where(approvals.c.root_execution_id == root, tool_calls.c.status == "waiting")
            .where(approvals.c.decision.is_(None) | approvals.c.decided_by.is_not(None), approvals.c.used_at.is_(None))
        )
        return {row["execution_id"]: row for row in await self._run(query.group_by(approvals.c.execution_id))}
