"""The turns of an execution: replies of its model, results of its tools, messages to the model.

Every unit is fenced: once another process has adopted the execution, writes of the old process are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Update, bindparam, exists, literal, select, update

from db.clock import stamp
from db.status import ExecutionStatus
from db.store.unit import Added, Event, Statement, Write
from db.tables import columns_of, deliveries, executions, messages, model_calls, tool_calls

_FENCE = select(literal(1)).where(
    exists().where(executions.c.id == bindparam("execution"), executions.c.attempt == bindparam("fence"))
)


def fenced(execution: str, attempt: int) -> Statement:
    """The guard that this process still owns an execution; the rest of the unit is written only then."""
    return Statement(_FENCE, {"execution": execution, "fence": attempt}, guard=True)


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """A message to store."""

    id: str
    execution_id: str
    position: int
    role: str
    kind: str
    content: str
    """JSON of its content blocks."""
    data: str | None = None
    """JSON of what it says, where code has to know that again."""

    def added(self) -> Added:
        """The row."""
        return Added(messages, {**columns_of(self), "created_at": stamp()})


_LATE_REPLY = (
    update(executions)
    .where(
        executions.c.id == bindparam("execution"),
        executions.c.attempt == bindparam("fence"),
        executions.c.status == ExecutionStatus.RUNNING.value,
    )
    .values(
        turns=executions.c.turns + 1,
        input_tokens=executions.c.input_tokens + bindparam("fresh"),
        output_tokens=executions.c.output_tokens + bindparam("made"),
        cache_read_tokens=executions.c.cache_read_tokens + bindparam("cache_read"),
        cache_write_tokens=executions.c.cache_write_tokens + bindparam("cache_write"),
        cost_usd=executions.c.cost_usd + bindparam("cost"),
    )
)
_REPLY = _LATE_REPLY.where(executions.c.cancel_requested_at.is_(None))


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One finished model call."""

    id: str
    execution_id: str
    turn: int
    model: str
    stop_reason: str | None
    request_id: str | None
    rehearsed: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float
    pricing: str
    started_at: str
    finished_at: str
    cache_write_1h_tokens: int = 0
    """Of the tokens written to the cache."""


@dataclass(frozen=True, slots=True)
class ToolStart:
    """A tool call that is about to run, or waits for an approval."""

    id: str
    execution_id: str
    message_id: str
    position: int
    call_id: str
    tool: str
    server: str
    arguments: str
    effect: str
    started_at: str
    status: str = "started"
    """`waiting` for a call that needs an approval: it becomes `started` when it may run."""


OPEN_CALLS = ("started", "waiting")
"""The statuses of a tool call that has no result yet."""

_UNSETTLED = {
    "is_error": None,
    "error_type": None,
    "result": None,
    "full_result": None,
    "finished_at": None,
}


def reply(
    attempt: int, call: ModelCall, message: MessageDraft, tools: Sequence[ToolStart], events: Sequence[Event]
) -> Write:
    """A model's reply, its usage and its tool calls: committed before any of them runs.

    Refused once the execution is asked to stop, so that no call starts after that.
    """
    calls = [Added(tool_calls, {**columns_of(tool), **_UNSETTLED}) for tool in tools]
    return Write([_spent(_REPLY, attempt, call), Added(model_calls, columns_of(call)), message.added(), *calls], events)


def _spent(sql: Update, attempt: int, call: ModelCall) -> Statement:
    """The totals of an execution after one more model call."""
    parameters = {
        "execution": call.execution_id,
        "fence": attempt,
        "fresh": call.input_tokens,
        "made": call.output_tokens,
        "cache_read": call.cache_read_tokens,
        "cache_write": call.cache_write_tokens,
        "cost": call.cost_usd,
    }
    return Statement(sql, parameters, guard=True)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The end of a tool call; `consumed` names the deliveries that its result contains."""

    id: str
    execution_id: str
    attempt: int
    status: str
    text: str
    is_error: bool = False
    error_type: str | None = None
    full_text: str | None = None
    consumed: Sequence[str] = field(default=())
    ran: bool = True
    """Whether it counts in the totals of its execution; the code that made the call decides."""


def late_reply(
    attempt: int,
    call: ModelCall,
    message: MessageDraft,
    tools: Sequence[tuple[ToolStart, ToolOutcome]],
    events: Sequence[Event],
) -> Write:
    """A model's reply to an execution that is asked to stop: stored, because it is paid for; its tool calls never start."""
    calls = [Added(tool_calls, {**columns_of(start), **_settlement(outcome)}) for start, outcome in tools]
    return Write(
        [_spent(_LATE_REPLY, attempt, call), Added(model_calls, columns_of(call)), message.added(), *calls], events
    )


def _settlement(outcome: ToolOutcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "is_error": int(outcome.is_error),
        "error_type": outcome.error_type,
        "result": outcome.text,
        "full_result": outcome.full_text,
        "finished_at": stamp(),
    }


_SETTLE = (
    update(tool_calls)
    .where(
        tool_calls.c.id == bindparam("call"),
        tool_calls.c.status.in_(OPEN_CALLS),
        exists().where(executions.c.id == bindparam("execution"), executions.c.attempt == bindparam("fence")),
    )
    .values(
        status=bindparam("became"),
        is_error=bindparam("failed"),
        error_type=bindparam("kind"),
        result=bindparam("answer"),
        full_result=bindparam("whole"),
        finished_at=bindparam("at"),
    )
)


_RAN = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.attempt == bindparam("fence"))
    .values(tool_call_count=executions.c.tool_call_count + 1)
)

_CONSUME = (
    update(deliveries)
    .where(deliveries.c.id.in_(bindparam("ids", expanding=True)), deliveries.c.consumed_at.is_(None))
    .values(consumed_at=bindparam("at"), consumed_by=bindparam("by"))
)


def settling(outcome: ToolOutcome) -> list[Statement | Added]:
    """The steps that settle a tool call, for units that do more."""
    at = stamp()
    parameters = {
        "call": outcome.id,
        "execution": outcome.execution_id,
        "fence": outcome.attempt,
        "became": outcome.status,
        "failed": int(outcome.is_error),
        "kind": outcome.error_type,
        "answer": outcome.text,
        "whole": outcome.full_text,
        "at": at,
    }
    steps: list[Statement | Added] = [Statement(_SETTLE, parameters, guard=True)]
    if outcome.consumed:
        steps.append(_consume(outcome.consumed, by=outcome.id, at=at))
    if outcome.ran:
        steps.append(Statement(_RAN, {"execution": outcome.execution_id, "fence": outcome.attempt}))
    return steps


def _consume(ids: Sequence[str], by: str, at: str) -> Statement:
    # Reads deliveries inserted by other writes of the same batch, and must find every one of them still waiting.
    parameters = {"ids": list(ids), "at": at, "by": by}
    return Statement(_CONSUME, parameters, guard=True, expect=len(ids), looks_around=True)


def settle(outcome: ToolOutcome, events: Sequence[Event]) -> Write:
    """A tool call's result: its own write, when it arrives."""
    return Write(settling(outcome), events)


def say(attempt: int, message: MessageDraft, consumed: Sequence[str], events: Sequence[Event]) -> Write:
    """A message to the model; its deliveries are consumed in the same write, or it is not written."""
    steps = [fenced(message.execution_id, attempt)]
    if consumed:
        steps.append(_consume(consumed, by=message.id, at=stamp()))
    return Write([*steps, message.added()], events)


_NEW_DEADLINE = (
    update(executions)
    .where(
        executions.c.id == bindparam("execution"),
        executions.c.attempt == bindparam("fence"),
        executions.c.status == ExecutionStatus.RUNNING.value,
    )
    .values(deadline_at=bindparam("deadline"))
)


def begin_again(attempt: int, deadline: str, first: MessageDraft, events: Sequence[Event]) -> Write:
    """Retry the task of a running execution, with a new deadline."""
    parameters = {"execution": first.execution_id, "fence": attempt, "deadline": deadline}
    return Write([Statement(_NEW_DEADLINE, parameters, guard=True), first.added()], events)


def ask(attempt: int, call: ToolStart, events: Sequence[Event]) -> Write:
    """A call of an execution without a model, stored only to ask a person about it."""
    fence = fenced(call.execution_id, attempt)
    return Write([fence, Added(tool_calls, {**columns_of(call), **_UNSETTLED})], events)
