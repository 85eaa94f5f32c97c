"""Records of tasks and their results, as planners, workers and completers are shown them. Pure.

Owns their form, how a worker's end becomes one, and how many are shown: the newest, by `state`, and never more than a model
can read. Invariant: a record that is not shown stays in rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json

from db.status import ExecutionStatus
from registry import IterateSpec
from runner.core.inbox import Item
from runner.result import Outcome, Result
from runner.text import BYTES_PER_TOKEN, Window, excerpt, read_json, tokens_of, windowed

PENDING, COMPLETED, FAILED = "pending", "completed", "failed"
CANCELLED = ExecutionStatus.CANCELLED.value


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task and its result."""

    task: str
    status: str = PENDING
    result: Any = None
    error: str | None = None
    created_at: int | None = None
    completed_at: int | None = None
    """Milliseconds since 1970."""
    step_id: str = ""
    """The step id, under which the full result is stored."""

    def shown(self) -> dict[str, Any]:
        """The record as templates and prompts have it; empty fields are left out."""
        error = {"message": self.error} if self.error is not None else None
        parts = {"result": self.result, "error": error, "createdAt": self.created_at, "completedAt": self.completed_at}
        return {"task": self.task, "status": self.status} | {key: part for key, part in parts.items() if part is not None}

    @property
    def size(self) -> int:
        """Its length in tokens."""
        return tokens_of(len(to_json(self.shown())))


def concluded(record: TaskRecord, end: Item) -> TaskRecord:
    """Complete a record with the end of its worker."""
    answer, status = end.answer, end.result.status if end.result is not None else FAILED
    if answer is None:
        return replace(record, status=FAILED, error=f"it ended {status}")
    said = _said(answer)
    result = said.get("result", _plain(answer, said))
    why = f"it was {CANCELLED}" if status == CANCELLED else _fault(answer, said)
    if status != "completed" or answer.outcome is not Outcome.COMPLETED or why is not None:
        return replace(record, status=FAILED, result=result, error=why or f"it ended {answer.outcome.value}")
    return replace(record, status=COMPLETED, result=result)


def _said(answer: Result) -> Mapping[str, Any]:
    """A worker's answer, if it is an object that reports its own success."""
    output = answer.output
    said = read_json(output, _says_so) if isinstance(output, str) else output
    return said if _says_so(said) else {}


def _says_so(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("success"), bool)


def _plain(answer: Result, said: Mapping[str, Any]) -> Any:
    """The whole output of an answer that does not report its own success."""
    return None if said or answer.output is None else answer.output


def _fault(answer: Result, said: Mapping[str, Any]) -> str | None:
    """Why a task failed; None if it succeeded."""
    error = said.get("error")
    if error:
        message = error.get("message") if isinstance(error, Mapping) else error
        return message if isinstance(message, str) and message.strip() else "it failed"
    if said.get("success") is False:
        return "it failed"
    if answer.errors:
        return answer.errors[0].message
    return f"it was only done in part ({answer.reason or 'partial'})" if answer.outcome is Outcome.PARTIAL else None


def compressed(records: Sequence[TaskRecord], spec: IterateSpec, ceiling: int) -> list[TaskRecord]:
    """The newest records that are shown, at least one; `ceiling` is the most tokens that a model can read of them."""
    most = ceiling if spec.max_tokens is None else min(spec.max_tokens, ceiling)
    window = Window(max_entries=spec.keep_recent, max_tokens=most, min_keep=1)
    kept = windowed(records, window, lambda record: record.size)
    return [_readable(record, ceiling) for record in kept]


def _readable(record: TaskRecord, ceiling: int) -> TaskRecord:
    """Cut a single record that is longer than the limit for all, with marks."""
    if record.size <= ceiling:
        return record
    error = record.error if record.error is None else _cut(record.error, ceiling // 4, None)
    if record.result is None:
        return replace(record, error=error)
    text = record.result if isinstance(record.result, str) else to_json(record.result).decode()
    return replace(record, result=_cut(text, ceiling * 3 // 4, record.step_id), error=error)


def _cut(text: str, tokens: int, source: str | None) -> str:
    return excerpt(text, tokens * BYTES_PER_TOKEN, source)
