"""An iteration for people and programs: its tasks and their results, read from the rows of its children."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from db.clock import moment
from db.rows.reads import Reads, Record
from runner.core.history import end_of, lineage
from runner.roles import WORKER
from runner.strategies.iterate.tasks import TaskRecord, concluded


async def tasks_of(reads: Reads, execution: str) -> dict[str, Any] | None:
    """The tasks of an iteration in order, after those of the execution it continues; None for another execution."""
    own = await reads.execution(execution)
    if own is None or own["strategy"] != "iterate":
        return None
    rows: dict[str, Record] = {}
    for each in await lineage(reads, execution):
        rows |= {row["step_id"]: row for row in await reads.children(each) if row["role"] == WORKER}
    shown = [{**_record(row).shown(), "execution_id": row["id"], "agent": row["agent"]} for row in rows.values()]
    return {"execution_id": execution, "tasks": shown}


def _record(row: Record) -> TaskRecord:
    record = TaskRecord(row["task"] or "", created_at=_milliseconds(row["created_at"]))
    if row["finished_at"] is None:
        return record
    return replace(concluded(record, end_of(row)), completed_at=_milliseconds(row["finished_at"]))


def _milliseconds(stamp: str) -> int:
    return round(moment(stamp).timestamp() * 1000)
