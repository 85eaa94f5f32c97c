"""The answer of an iteration: from what its completer said to its result. Pure.

A limit or a stop makes it partial, never failed, as long as something was found; without a completer what the tasks brought
is put together, so that nothing is lost by an answer that could not be given. A form that was asked for is not made up:
without one the iteration has failed or, where only the budget did not suffice, its answer says that it has no form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_core import to_json

from runner.core.inbox import Item
from runner.result import BUDGETS, Outcome, Problem, Result, failed, summarise
from runner.strategies.iterate.tasks import COMPLETED, FAILED, TaskRecord

NOBODY = "the answer was put together without a model: nobody could give it"
FORMLESS = "the answer does not fit its `output_schema`: there was no budget for one that does"


def answered(
    end: Item | None, records: Sequence[TaskRecord], problem: Problem | None, schema: Mapping[str, Any] | None
) -> Result:
    """The result: `problem` is why it stopped before it was finished, `schema` the form the answer is to have."""
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
    """What there is without a completer."""
    own = said.errors[0] if said is not None and said.errors else Problem("failed", "nobody gave the final answer")
    errors = tuple(filter(None, (problem, own)))
    text = joined(records) or joined(records, FAILED)
    reason = (problem or own).type
    if not text or (schema is not None and reason not in BUDGETS):
        return replace(failed(errors[0], text), errors=errors)
    partly = Result(Outcome.PARTIAL, summarise(text), text, reason, errors=errors)
    return partly.stamped(warnings=[NOBODY, *([FORMLESS] if schema is not None else [])])


def joined(records: Sequence[TaskRecord], status: str = COMPLETED) -> str:
    """What the tasks that succeeded brought, or those that did not, one after the other."""
    brought = (record.result for record in records if record.status == status and record.result is not None)
    return "\n\n".join(each if isinstance(each, str) else to_json(each, indent=2).decode() for each in brought)
