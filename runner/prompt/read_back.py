"""Read back: the full text, from rows, that an execution was shown in part or is no longer shown.

Owns what an execution may read: reports of its children, results of steps and files it was shown, results of its own calls,
its task, and the last two of the executions it continues. Any other id does not exist for it.
"""

from __future__ import annotations

from pydantic_core import from_json

from db.rows.reads import Reads
from runner.core.execution import Execution
from runner.core.history import lineage
from runner.messages import Message
from runner.prompt.files import SCHEME, file_text
from runner.result import Result
from runner.roles import COMPLETER, PLANNER, STAGE, STEP, WORKER

SHOWN_STEPS = frozenset({STEP, PLANNER, WORKER, COMPLETER})
"""Roles whose prompts show results of steps, which may be cut."""
SHOWN_STAGES = frozenset({STAGE})
"""The role whose prompts show outputs of earlier stages, which may be cut."""


async def full_text(execution: Execution, identifier: str) -> str | None:
    """The full text behind an id: a child's report, a step or file it was shown, a call's result, or its own task."""
    child = execution.children.ended.get(identifier)
    if child is not None:
        return child.result.text if child.result is not None else None
    if identifier.startswith(SCHEME):
        return await file_text(execution, identifier)
    reads = execution.services.database.reads
    shown = await _shown_step(execution, identifier) or await _shown_stage(execution, identifier)
    if shown is not None:
        return shown
    for each in (execution.id, *reversed(await lineage(reads, execution.request.continues))):
        if each == identifier:
            return await _task(reads, each)
        row = await reads.tool_call(each, identifier)
        if row is not None:
            whole: str | None = row["full_result"] or row["result"]
            return whole
    return None


async def _shown_step(execution: Execution, identifier: str) -> str | None:
    """The result of a step that its caller, or an ancestor whose prompt was passed on, showed it."""
    reads, shown, above = execution.services.database.reads, execution, execution.parent
    while above is not None and shown.request.role in SHOWN_STEPS:
        for each in (above.id, *reversed(await lineage(reads, above.request.continues))):
            for step in await reads.children(each):
                if step["step_id"] == identifier and step["role"] in (STEP, WORKER) and step["result"]:
                    return Result.of_json(step["result"]).text
        shown, above = above, above.parent
    return None


async def _shown_stage(execution: Execution, identifier: str) -> str | None:
    """The result of an agent of an earlier stage of the same chain, by id."""
    if execution.parent is None or execution.request.role not in SHOWN_STAGES:
        return None
    reads = execution.services.database.reads
    for each in (execution.parent.id, *reversed(await lineage(reads, execution.parent.request.continues))):
        for child in await reads.children(each):
            if child["id"] == identifier and child["result"]:
                return Result.of_json(child["result"]).text
    return None


async def _task(reads: Reads, execution: str) -> str:
    """The task of an execution, in its newest attempt."""
    tasks = [row["content"] for row in await reads.messages(execution) if row["kind"] == "task"]
    return Message("user", from_json(tasks[-1])).words
