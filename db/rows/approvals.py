"""Approvals: questions to a person, their decisions, and the one use of each. Units are applied by `db/store/writer.py`.

Knows the table and its guards; does not know which agent asks or how a person is reached. Each invariant is one guarded
UPDATE, so no order of events and no second process can break it:

* A decision counts for the call and arguments that were shown, by its own principal, in time, once.
* A waiting call becomes `started` in the write that uses its approval, and in no other.
* An open execution says `waiting_for: approval` exactly while a question about it is undecided.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from typing import Any

from sqlalchemy import ColumnElement, Executable, FromClause, bindparam, exists, func, literal, or_, select, update

from db.clock import stamp
from db.rows.transcript import OPEN_CALLS
from db.status import APPROVAL, ExecutionStatus
from db.store.unit import Added, Event, Statement, Write
from db.tables import approvals, below, columns_of, executions, meanings, tool_calls

Row = Mapping[str, Any]

_OF_EXECUTION = (executions.c.agent, executions.c.parent_execution_id, executions.c.session_id)
_ABOUT = (*_OF_EXECUTION, tool_calls.c.server, tool_calls.c.arguments)


def starts(call: ColumnElement[str], step: FromClause) -> ColumnElement[bool]:
    """Whether a call starts a step of a plan: such a call is named by the plan and the step."""
    return call == step.c.parent_execution_id.concat(literal(".")).concat(step.c.step_id)


def asked_about() -> ColumnElement[bool]:
    """Whether a question about the statement's execution is undecided: about one of its calls, or about its start."""
    of_it = (approvals.c.execution_id == executions.c.id) | starts(approvals.c.tool_call_id, executions)
    in_tree = approvals.c.root_execution_id == executions.c.root_execution_id  # which has an index
    undecided = select(approvals.c.id).where(in_tree, approvals.c.decision.is_(None), of_it)
    return exists(undecided.correlate(executions))


def asked_to_repeat(call: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether a person was ever asked if a call interrupted by a crash may run again."""
    return exists().where(approvals.c.tool_call_id == call, approvals.c.kind == "repeat")


_step = executions.alias("step")
_STARTS_STEP = _step.c.parent_execution_id == approvals.c.execution_id, starts(approvals.c.tool_call_id, _step)


def _concerns(top: str, *, steps: bool = True) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The questions about an execution and its subtree: about their calls, and about their start as steps."""
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
        """Undecided questions, oldest first, each with its call and the agent that makes it.

        All, or those of one subtree. `step_execution_id` is the step of a plan that may not start before the decision.
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
        """The questions about a tool call, newest first."""
        query = select(approvals).where(approvals.c.tool_call_id == call)
        return await self._run(query.order_by(approvals.c.id.desc()))

    async def those(self, ids: Sequence[str]) -> list[Row]:
        """The questions with these ids, decided or not."""
        return await self._run(select(approvals).where(approvals.c.id.in_(ids)))

    async def decided(self, top: str) -> list[Row]:
        """The questions of a subtree that were decided or have expired, latest first."""
        query = select(approvals).where(*_concerns(top), approvals.c.decision.is_not(None))
        return await self._run(query.order_by(approvals.c.decided_at.desc()))

    async def named(self, given: str) -> list[Row]:
        """The questions that a whole id, its beginning or its end may mean, decided or not."""
        for meant in meanings(approvals.c.id, given):
            if found := await self._run(select(approvals).where(meant).order_by(approvals.c.id)):
                return found
        return []

    async def undecided(self, top: str) -> list[Row]:
        """The questions of a subtree without a decision, also of executions that have ended."""
        names = ("parent_execution_id", "session_id", "attempt", "finished_at")
        of = [executions.c[name] for name in names]
        query = select(approvals, *of).join(executions, executions.c.id == approvals.c.execution_id)
        return await self._run(query.where(*_concerns(top, steps=False), approvals.c.decision.is_(None)))

    async def waiting(self, root: str) -> Mapping[str, Row]:
        """The executions of a tree that wait for an approval, decided meanwhile or not: `since` when, and `until` when."""
        since, until = func.min(approvals.c.requested_at).label("since"), func.min(approvals.c.expires_at).label("until")
        query = (
            select(approvals.c.execution_id, since, until)
            .join(tool_calls, tool_calls.c.id == approvals.c.tool_call_id)
            .where(approvals.c.root_execution_id == root, tool_calls.c.status == "waiting")
            .where(approvals.c.decision.is_(None) | approvals.c.decided_by.is_not(None), approvals.c.used_at.is_(None))
        )
        return {row["execution_id"]: row for row in await self._run(query.group_by(approvals.c.execution_id))}


APPROVED, DENIED, EXPIRED, WITHDRAWN = "approved", "denied", "expired", "withdrawn"
"""Decisions; a person makes the first two."""


def digest(server: str, tool: str, arguments: Any) -> str:
    """The hash an approval is bound to: a tool and its exact arguments, in any order of keys."""
    canonical = json.dumps([server, tool, arguments], sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class NewApproval:
    """A question to a person."""

    id: str
    execution_id: str
    root_execution_id: str
    tool_call_id: str
    principal: str | None
    kind: str
    """`gate`: may it run; `repeat`: may it run again, although its outcome is unknown."""
    tool: str
    arguments_hash: str
    requested_at: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """A person's answer to a question. Without a principal it comes from this machine's user, who may decide everything."""

    approval: str
    shown: str
    """The digest of the call that the person saw."""
    approved: bool
    by: str
    reason: str = ""
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A call that waits for a decision, and the attempt of its execution."""

    approval: str
    call: str
    execution: str
    attempt: int


_UNDECIDED: dict[str, Any] = {"decision": None, "decided_by": None, "reason": None, "decided_at": None, "used_at": None}


def _running(*more: Any) -> list[Any]:
    """The conditions for an execution that asks or resumes: it runs and is not asked to stop."""
    return [executions.c.status == ExecutionStatus.RUNNING.value, executions.c.cancel_requested_at.is_(None), *more]


_FENCED = (executions.c.id == bindparam("execution"), executions.c.attempt == bindparam("fence"))

_WAITS = update(executions).where(*_running(*_FENCED)).values(waiting_for=APPROVAL)

_HOLD = (
    update(tool_calls)
    .where(tool_calls.c.id == bindparam("call"), tool_calls.c.status.in_(OPEN_CALLS))
    .values(status="waiting")
)

_DECIDE = (
    update(approvals)
    .where(
        approvals.c.id == bindparam("approval"),
        approvals.c.arguments_hash == bindparam("shown"),
        approvals.c.decision.is_(None),
        approvals.c.expires_at > bindparam("now"),
        or_(bindparam("local") == 1, approvals.c.principal == bindparam("asker")),
        exists().where(*_running(executions.c.id == approvals.c.execution_id)),
        exists().where(tool_calls.c.id == approvals.c.tool_call_id, tool_calls.c.status == "waiting"),
    )
    .values(decision=bindparam("said"), decided_by=bindparam("by"), reason=bindparam("why"), decided_at=bindparam("now"))
)

_USE = (
    update(approvals)
    .where(
        approvals.c.id == bindparam("approval"),
        approvals.c.execution_id == bindparam("execution"),
        approvals.c.tool_call_id == bindparam("call"),
        approvals.c.arguments_hash == bindparam("hash"),
        approvals.c.decision == APPROVED,
        approvals.c.used_at.is_(None),
        approvals.c.expires_at > bindparam("now"),
    )
    .values(used_at=bindparam("now"))
)

_BEGIN = (
    update(tool_calls)
    .where(
        tool_calls.c.id == bindparam("call"),
        tool_calls.c.execution_id == bindparam("execution"),
        tool_calls.c.status == "waiting",
        exists().where(*_running(*_FENCED)),
    )
    .values(status="started", started_at=bindparam("now"))
)

_CLOSE = (
    update(approvals)
    .where(
        approvals.c.id == bindparam("approval"),
        approvals.c.decision.is_(None),
        exists().where(approvals.c.execution_id == executions.c.id, *_FENCED),
    )
    .values(decision=bindparam("said"), decided_at=bindparam("now"))
)

_MAY_NOT_START = (
    update(executions)
    .where(
        executions.c.parent_execution_id == bindparam("execution"),
        executions.c.status == ExecutionStatus.PENDING.value,
        starts(bindparam("call"), executions),
    )
    .values(waiting_for=APPROVAL)
)
"""The step that a question of its plan is about waits for the decision, too."""

_WAITS_NO_MORE = (
    update(executions)
    .where(
        executions.c.root_execution_id
        == select(approvals.c.root_execution_id).where(approvals.c.id == bindparam("approval")).scalar_subquery(),
        executions.c.waiting_for == APPROVAL,
        ~asked_about(),
    )
    .values(waiting_for=None)
)
"""Part of every write that closes a question: no row waits for an approval without an open question."""

_DEADLINE = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.status == ExecutionStatus.RUNNING.value)
    .values(deadline_at=bindparam("deadline"))
)


def request(new: NewApproval, attempt: int, events: Sequence[Event]) -> Write:
    """Ask a question; refused when the execution no longer runs, is asked to stop, or the call has its result."""
    steps: list[Statement | Added] = [
        Statement(_WAITS, {"execution": new.execution_id, "fence": attempt}, guard=True),
        Statement(_HOLD, {"call": new.tool_call_id}, guard=True),
        Added(approvals, {**columns_of(new), **_UNDECIDED, "seal": token_hex()}),
        Statement(_MAY_NOT_START, {"execution": new.execution_id, "call": new.tool_call_id}, looks_around=True),
    ]
    return Write(steps, events)


def decide(decision: ApprovalDecision, events: Sequence[Event]) -> Write:
    """Decide once; refused for a foreign, changed, expired or decided question, and when no call waits for it any more."""
    parameters = {
        "approval": decision.approval,
        "shown": decision.shown,
        "local": int(decision.principal is None),
        "asker": decision.principal,
        "said": APPROVED if decision.approved else DENIED,
        "by": decision.by,
        "why": decision.reason or None,
        "now": stamp(),
    }
    decided = Statement(_DECIDE, parameters, guard=True, looks_around=True)
    return Write([decided, _waits_no_more(decision.approval)], events)


def use(held: Held, arguments_hash: str, deadlines: Mapping[str, str]) -> Write:
    """Use an approval and start its call; refused when it is not approved, used, expired or for another call.

    The hash is computed again from the exact arguments that will be sent.
    """
    whose = {"execution": held.execution, "call": held.call, "now": stamp()}
    used = {**whose, "approval": held.approval, "hash": arguments_hash}
    begun = {**whose, "fence": held.attempt}
    steps = [Statement(_USE, used, guard=True), Statement(_BEGIN, begun, guard=True)]
    return Write([*steps, *_deadlines(deadlines)])


def close(held: Held, decision: str, events: Sequence[Event]) -> Write:
    """Close an undecided question: it expired, or its execution withdraws it; refused when it was decided after all."""
    closed = {"approval": held.approval, "execution": held.execution, "fence": held.attempt}
    ended = Statement(_CLOSE, {**closed, "said": decision, "now": stamp()}, guard=True)
    return Write([ended, _waits_no_more(held.approval)], events)


def go_on(deadlines: Mapping[str, str]) -> Write:
    """Set the new deadlines of an execution and its ancestors after a call has waited."""
    return Write(_deadlines(deadlines))


def _waits_no_more(approval: str) -> Statement:
    return Statement(_WAITS_NO_MORE, {"approval": approval}, looks_around=True)


def _deadlines(deadlines: Mapping[str, str]) -> list[Statement]:
    return [Statement(_DEADLINE, {"execution": each, "deadline": at}) for each, at in deadlines.items()]
