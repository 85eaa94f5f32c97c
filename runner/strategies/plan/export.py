"""A plan for people and programs: the planned steps joined with their results. Read from rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from db.clock import moment
from db.rows.reads import Reads, Record
from runner.core.history import lineage
from runner.result import Result
from runner.roles import PLAN


async def plan_of(reads: Reads, execution: str) -> dict[str, Any] | None:
    """The newest version of an execution's plan, with the steps of all versions; None if it has no plan.

    For a route it is the plan that handled its message.
    """
    versions = await reads.plans.of(execution)
    if not versions:
        carried_out = next((row["id"] for row in await reads.children(execution) if row["role"] == PLAN), None)
        return await plan_of(reads, carried_out) if carried_out is not None else None
    rows: dict[str, Record] = {}
    attempts: dict[str, int] = {}
    for each in await lineage(reads, execution):  # steps done there are not repeated
        rows |= {row["step_id"]: row for row in await reads.children(each) if row["role"] == "step"}
        attempts |= await reads.plans.attempts(each)
    newest = versions[-1]
    steps = [
        _step({**step, "version": version["version"]}, rows.get(step["id"]), attempts)
        for version in versions
        for step in from_json(version["steps"])
    ]
    return {
        "id": newest["id"],
        "execution_id": execution,
        "user_request": newest["request"],
        "status": newest["status"],
        "version": newest["version"],
        "analysis": newest["analysis"],
        "resolved_values": from_json(newest["resolved_values"]),
        "response_hint": newest["response_hint"],
        "triggers": [from_json(version["trigger"]) for version in versions if version["trigger"]],
        "steps": steps,
        "context": {
            "step_results": {step["id"]: step["result"] for step in steps if step["result"] is not None},
            "errors": [{"step_id": step["id"], "error": step["error"]} for step in steps if step["error"]],
        },
        "created_at": versions[0]["created_at"],
        "updated_at": newest["updated_at"],
    }


def _step(planned: Mapping[str, Any], row: Record | None, attempts: Mapping[str, int]) -> dict[str, Any]:
    result = Result.of_json(row["result"]) if row is not None and row["result"] else None
    status = row["status"] if row is not None else "pending"
    succeeded = status == "completed" and result is not None and result.outcome in ("completed", "partial")
    retries = attempts.get(row["id"], 0) if row is not None else 0
    return {
        "id": planned["id"],
        "execution_id": row["id"] if row is not None else None,
        "version": planned["version"],
        "agent": planned["agent"],
        "intent": planned["intent"],
        "task": planned["task"],
        "user_instruction": planned["instruction"],
        "depends_on": list(planned["depends_on"]),
        "notes": planned["notes"],
        "requires_confirmation": planned["confirm"],
        "status": status,
        "success": succeeded,
        "retry_count": retries,
        "max_retries": planned["max_retries"],
        "result": None if result is None else _result(result, row, succeeded=succeeded),
        "response": result.output if succeeded and result is not None else None,
        "error": row["error"] if row is not None else None,
        "duration_ms": _milliseconds(row),
        "started_at": row["started_at"] if row is not None else None,
    }


def _result(result: Result, row: Record | None, *, succeeded: bool) -> dict[str, Any]:
    usage = {"input": row["input_tokens"], "output": row["output_tokens"]} if row is not None else None
    return {"success": succeeded, "output": result.output, "error": row["error"] if row else None, "token_usage": usage}


def _milliseconds(row: Record | None) -> int:
    if row is None or row["started_at"] is None or row["finished_at"] is None:
        return 0
    return round((moment(row["finished_at"]) - moment(row["started_at"])).total_seconds() * 1000)
