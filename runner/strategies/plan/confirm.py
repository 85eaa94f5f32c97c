"""Confirmation: a person decides whether a step of a plan may run.

The question is an approval of a call: `run_step`, with the agent and its task as arguments. So every face that shows and
answers approvals supports it, and an answer survives a restart. The step waits as a pending row.
"""

from __future__ import annotations

import anyio
from pydantic_core import to_json

from db.clock import stamp
from db.rows.transcript import ToolOutcome, ToolStart
from runner.messages import Tool, ToolCall, clean
from runner.record import turn_facts
from runner.strategies.context import StrategyContext
from runner.strategies.plan.parse import PlannedStep
from runner.tools.builtin import SERVER
from runner.tools.effects import NOT_BEGUN, status_of
from runner.tools.protocol import ToolResult

RUN_STEP = Tool("run_step", "Run a step of a plan.", {}, label="run_step", server=SERVER, effect="idempotent", gate="ask")
ALLOWED = ToolResult("the step may run")


async def confirmed(context: StrategyContext, step: PlannedStep) -> bool:
    """Wait for a person's decision on a step; whether it may run."""
    arguments = {"step": step.id, "agent": step.agent, "task": clean(step.task)}
    call = ToolCall(step.id, RUN_STEP.name, arguments, row=f"{context.place.id}.{step.id}")
    asked = await context.lookups.tool_call(call.row)
    if asked is not None and asked["finished_at"] is not None:
        return not asked["is_error"]
    if asked is None:
        await _begin(context, call)
    allowed = asked is not None and asked["status"] == "started"  # approved, but the process died before recording it
    try:
        refusal = None if allowed else await context.lookups.gate().allow(call, RUN_STEP)
    except anyio.get_cancelled_exc_class():
        if not context.lookups.resumes_elsewhere():
            context.recorder.record_nowait(_settled(context, call, NOT_BEGUN))
        raise
    result = refusal or ALLOWED
    await context.recorder.record(_settled(context, call, result), shielded=True)
    return not result.is_error


async def _begin(context: StrategyContext, call: ToolCall) -> None:
    start = ToolStart(
        id=call.row,
        execution_id=context.place.id,
        message_id="",
        position=0,
        call_id=call.id,
        tool=RUN_STEP.label,
        server=SERVER,
        arguments=to_json(call.arguments).decode(),
        effect=RUN_STEP.effect,
        started_at=stamp(),
        status="waiting",
    )
    await context.recorder.record_fenced(
        turn_facts.ApprovalAsked(context.place, context.epoch, start), context.place.id, shielded=True
    )


def _settled(context: StrategyContext, call: ToolCall, result: ToolResult) -> turn_facts.ToolSettled:
    outcome = ToolOutcome(
        id=call.row,
        execution_id=context.place.id,
        attempt=context.epoch,
        status=status_of(result),
        text=result.text,
        is_error=result.is_error,
        error_type=result.error_type,
        ran=False,  # no tool ran
    )
    return turn_facts.ToolSettled(context.place, context.name, RUN_STEP.label, 0.0, outcome)
