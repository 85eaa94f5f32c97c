"""Orphans: tool calls, approvals and plans that stay open after their execution was abandoned or its process died.

Owns settling them, so that every started call, every approval and every plan ends. An execution that ends by itself settles
its own.
"""

from __future__ import annotations

from db.rows.approvals import WITHDRAWN, Held
from db.rows.executions import Place
from db.rows.reads import Reads, Record
from db.rows.transcript import ToolOutcome
from runner.record import facts, turn_facts
from runner.record.recorder import Recorder
from runner.tools.effects import NOT_BEGUN, cut_short, status_of


async def settle_orphans(reads: Reads, recorder: Recorder, top: str, *, ended: bool = True) -> None:
    """Settle the orphans from `top` down: of ended executions only, or also of those about to end."""
    for row in await reads.plans.under_way(top, ended=ended):
        place = _place(row)
        await recorder.record(facts.PlanGivenUp(place, row["attempt"], row["version"]))
    for row in await reads.questions.undecided(top):
        if row["finished_at"] is not None or not ended:
            place = _place(row)
            held = Held(row["id"], row["tool_call_id"], place.id, row["attempt"])
            await recorder.record(facts.ApprovalClosed(place, row["tool"], held, WITHDRAWN))
    for row in await reads.loose_tool_calls(top, ended=ended):
        place = _place(row)
        result = cut_short(row["effect"]) if row["begun"] else NOT_BEGUN
        outcome = ToolOutcome(
            id=row["id"],
            execution_id=place.id,
            attempt=row["attempt"],
            status=status_of(result),
            text=result.text,
            is_error=result.is_error,
            error_type=result.error_type,
            ran=result.ran,
        )
        await recorder.record(turn_facts.ToolSettled(place, row["agent"], row["tool"], 0.0, outcome))


def _place(row: Record) -> Place:
    return Place(row["execution_id"], row["parent_execution_id"], row["root_execution_id"], row["session_id"])
