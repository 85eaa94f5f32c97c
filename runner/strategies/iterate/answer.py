"""The answer of an iteration: turns the completer's end into a result. Pure.

A limit or a stop makes the result partial, never failed, as long as there are findings. If the completer fails, task
results are concatenated, so no finding is lost. An answer for an `output_schema` is never invented: without a completer the
iteration fails, or, if only the budget was missing, its answer says that it does not fit the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from runner.core.inbox import Item
from runner.result import BUDGETS, Outcome, Problem, Result, failed, summarise
from runner.strategies.iterate.tasks import COMPLETED, FAILED, TaskRecord

NOBODY = "the completer failed: the answer was assembled from task results without a model"
FORMLESS = "the answer does not fit its `output_schema`: no budget was left for one that does"


def answered(
    end: Item | None, records: Sequence[TaskRecord], problem: Problem | None, schema: Mapping[str, Any] | None
) -> Result:
    """Build the result. `problem`: why the iteration stopped early; `schema`: what the answer has to fit."""
    said = end.answer if end is not None else None
    status = end.result.status if end is not None and end.result is not None else "failed"
    if said is None or status != "completed" or said.outcome in (Outcome.FAILED, Outcome.BLOCKED):
        return _without(said, records, problem, schema)
    kept = {key: value for key, value in said.metadata.items() if key == "warnings"}
    result = replace(said, metadata=kept)
    if problem is None:
        return result
    return replace(result, outcome=Outcome.PARTIAL, reason=problem.type, errors=(problem, *said.errors))


def _without(
    said: Result | None, records: Sequence[TaskRecord], problem: Problem | None, schema: Mapping[str, Any] | None
) -> Result:
    """Build the result without a completer."""
    own = said.errors[0] if said is not None and said.errors else Problem("failed", "the completer gave no answer")
    errors = tuple(filter(None, (problem, own)))
    text = joined(records) or joined(records, FAILED)
    reason = (problem or own).type
    if not text or (schema is not None and reason not in BUDGETS):
        return replace(failed(errors[0], text), errors=errors)
    partly = Result(Outcome.PARTIAL, summarise(text), text, reason, errors=errors)
    return partly.stamped(warnings=[NOBODY, *([FORMLESS] if schema is not None else [])])


def joined(records: Sequence[TaskRecord], status: str = COMPLETED) -> str:
    """The results of all tasks with a status, concatenated."""
    brought = (record.result for record in records if record.status == status and record.result is not None)
    return "\n\n".join(each if isinstance(each, str) else to_json(each, indent=2).decode() for each in brought)
