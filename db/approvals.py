"""Approvals: what a person is asked, the decision, and its one use. Units of work, applied by `db/writer.py`.

Knows the table and its guards; does not know who asks or how a person is reached. Its invariants are each one guarded
UPDATE, so that no order of events and no second process can get round them:

* A decision is for the call and the arguments that were shown, by whom it concerns, in time, once.
* A call that waits becomes `started` in the write that uses up its approval, and by no other.
* An open execution says `waiting_for: approval` exactly while a question about it is undecided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex
from typing import Any

from sqlalchemy import bindparam, exists, or_, select, update

from db.clock import stamp
from db.questions import asked_about, starts
from db.status import APPROVAL, ExecutionStatus
from db.tables import approvals, columns_of, executions, tool_calls
from db.turns import OPEN_CALLS
from db.unit import Added, Event, Statement, Write

APPROVED, DENIED, EXPIRED, WITHDRAWN = "approved", "denied", "expired", "withdrawn"
"""Decisions: the first two are a person's."""


def digest(server: str, tool: str, arguments: Any) -> str:
    """What an approval is bound to: a tool and its exact arguments, in whatever order of keys."""
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
    """`gate`: may it run; `repeat`: may it run again, although nobody knows whether it did."""
    tool: str
    arguments_hash: str
    requested_at: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody says to a question. Without a principal it is somebody at this machine, who may decide everything."""

    approval: str
    shown: str
    """The digest of the call as the person saw it."""
    approved: bool
    by: str
    reason: str = ""
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A call that is held up by a question, and the attempt of the execution that makes it."""

    approval: str
    call: str
    execution: str
    attempt: int


_UNDECIDED: dict[str, Any] = {"decision": None, "decided_by": None, "reason": None, "decided_at": None, "used_at": None}


def _running(*more: Any) -> list[Any]:
    """What must hold of an execution that asks or goes on: it runs, and nobody wants it to stop."""
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
"""The step that a question of its plan is about waits for the answer, too."""

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
"""Part of every write that ends a question: no row says that it waits for a person who is not asked."""

_DEADLINE = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.status == ExecutionStatus.RUNNING.value)
    .values(deadline_at=bindparam("deadline"))
)


def request(new: NewApproval, attempt: int, events: Sequence[Event]) -> Write:
    """Ask; refused when the execution does not run any more, is asked to stop, or the call has its result."""
    steps: list[Statement | Added] = [
        Statement(_WAITS, {"execution": new.execution_id, "fence": attempt}, guard=True),
        Statement(_HOLD, {"call": new.tool_call_id}, guard=True),
        Added(approvals, {**columns_of(new), **_UNDECIDED, "seal": token_hex()}),
        Statement(_MAY_NOT_START, {"execution": new.execution_id, "call": new.tool_call_id}, looks_around=True),
    ]
    return Write(steps, events)


def decide(decision: Decision, events: Sequence[Event]) -> Write:
    """Decide, once; refused for a foreign, changed, expired or answered question, and when nobody waits for it any more."""
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
    """Use an approval up and let its call begin; refused when it is not approved, used, expired or for something else.

    The hash is made anew from the very arguments that will be sent.
    """
    whose = {"execution": held.execution, "call": held.call, "now": stamp()}
    used = {**whose, "approval": held.approval, "hash": arguments_hash}
    begun = {**whose, "fence": held.attempt}
    steps = [Statement(_USE, used, guard=True), Statement(_BEGIN, begun, guard=True)]
    return Write([*steps, *_deadlines(deadlines)])


def close(held: Held, decision: str, events: Sequence[Event]) -> Write:
    """End a question nobody answered: it expired, or its execution withdraws it; refused when it was answered after all."""
    closed = {"approval": held.approval, "execution": held.execution, "fence": held.attempt}
    ended = Statement(_CLOSE, {**closed, "said": decision, "now": stamp()}, guard=True)
    return Write([ended, _waits_no_more(held.approval)], events)


def go_on(deadlines: Mapping[str, str]) -> Write:
    """A call waits no longer: when the time of its execution and of its callers ends now."""
    return Write(_deadlines(deadlines))


def _waits_no_more(approval: str) -> Statement:
    return Statement(_WAITS_NO_MORE, {"approval": approval}, looks_around=True)


def _deadlines(deadlines: Mapping[str, str]) -> list[Statement]:
    return [Statement(_DEADLINE, {"execution": each, "deadline": at}) for each, at in deadlines.items()]
