"""How a live execution looks from outside: to its caller, to its parent's inbox, in its result.

Owns these views and nothing else; executions of other processes look the same, from their rows (`runner/lookup.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from db.ids import result_delivery
from db.status import ExecutionStatus
from runner.evidence import UNVERIFIED
from runner.handle import Child
from runner.inbox import Item
from runner.transcript import Delivered

if TYPE_CHECKING:
    from runner.execution import Execution


def child_of(execution: Execution) -> Child:
    """An execution as its caller sees it."""
    return Child(
        id=execution.id,
        agent=execution.name,
        task=execution.request.task,
        status=execution.status.value,
        queue_position=execution.slot.queue_position,
        result=execution.result,
        error=execution.error,
        activity=activity_of(execution),
        elapsed=elapsed_of(execution),
        remaining=execution.allowance.seconds_left if execution.status is ExecutionStatus.RUNNING else None,
        usage=usage_of(execution),
        waiting_for="approval" if execution.allowance.stands else None,
    )


def end_of(execution: Execution) -> Item:
    """How it ended, as its parent's inbox has it."""
    result = execution.result
    delivered = Delivered(
        execution_id=execution.id,
        agent=execution.name,
        status=execution.status.value,
        outcome=result.outcome.value if result is not None else None,
        text=result.text if result is not None else "",
        tool_calls=execution.allowance.own.tool_calls,
        unverified=result.metadata.get(UNVERIFIED, ()) if result is not None else (),
    )
    return Item(result_delivery(execution.id), "result", result=delivered, answer=result)


def activity_of(execution: Execution) -> str:
    """What it does at the moment, in words."""
    if execution.slot.queue_position:
        return f"waiting for a slot (place {execution.slot.queue_position})"
    if execution.status is ExecutionStatus.PENDING:
        return "waiting for its turn" if execution.hold is not None else "about to start"
    return execution.work.activity if execution.work is not None else "starting"


def elapsed_of(execution: Execution) -> float:
    """Seconds since it was born."""
    return (execution.ended_at if execution.ended_at is not None else anyio.current_time()) - execution.born_at


def standing_of(execution: Execution) -> dict[str, Any]:
    """Where it stands, as its result tells: in whose session, how deep, behind whom, and for how long."""
    return {
        "session_id": execution.origin.session,
        "agent_type": execution.request.agent.name,
        "delegation_depth": execution.depth,
        "delegation_path": list(execution.delegation_path),
        "duration_seconds": round(elapsed_of(execution), 3),
    }


def usage_of(execution: Execution) -> dict[str, Any]:
    """What it used itself, without its children, and its budget if it has one."""
    spent = execution.allowance.own
    used = {
        "turns": spent.turns,
        "tokens": spent.tokens,
        "cost_usd": round(spent.cost_usd, 6),
        "dispatches": spent.dispatches,
        "tool_calls": spent.tool_calls,
    }
    budget = execution.allowance.budget.shown if execution.allowance.budget is not None else None
    return {**used, "budget": budget} if budget else used
