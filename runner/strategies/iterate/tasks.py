"""Records of tasks: what was to be done and what became of it, as planners, workers and completers are shown it.

Owns their form, how an end becomes one, and how much of them is shown: the newest, as `state` says, and in no case more
than a model can read. Pure. Invariant: what is left out of what is shown stays in rows.
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
    """A task and what became of it."""

    task: str
    status: str = PENDING
    result: Any = None
    error: str | None = None
    created_at: int | None = None
    completed_at: int | None = None
    """Milliseconds since 1970."""
    seat: str = ""
    """Where the whole of its result is found."""

    def shown(self) -> dict[str, Any]:
        """As templates and prompts have it; what there is not is left out."""
        error = {"message": self.error} if self.error is not None else None
        parts = {"result": self.result, "error": error, "createdAt": self.created_at, "completedAt": self.completed_at}
        return {"task": self.task, "status": self.status} | {key: part for key, part in parts.items() if part is not None}

    @property
    def size(self) -> int:
        """Tokens it takes."""
        return tokens_of(len(to_json(self.shown())))


def concluded(record: TaskRecord, end: Item) -> TaskRecord:
    """The record of a task whose worker has ended."""
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
    """What a worker answered, where it says itself whether it succeeded."""
    output = answer.output
    said = read_json(output, _says_so) if isinstance(output, str) else output
    return said if _says_so(said) else {}


def _says_so(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("success"), bool)


def _plain(answer: Result, said: Mapping[str, Any]) -> Any:
    """What a worker answered that does not say so: all of it."""
    return None if said or answer.output is None else answer.output


def _fault(answer: Result, said: Mapping[str, Any]) -> str | None:
    """Why a task failed, if it did, in words."""
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
    """As many of the newest records as are to be shown, at least one; `ceiling` are the tokens a model can read of them."""
    most = ceiling if spec.max_tokens is None else min(spec.max_tokens, ceiling)
    window = Window(max_entries=spec.keep_recent, max_tokens=most, min_keep=1)
    kept = windowed(records, window, lambda record: record.size)
    return [_readable(record, ceiling) for record in kept]


def _readable(record: TaskRecord, ceiling: int) -> TaskRecord:
    """A record that a model can read: one that alone is longer than all may be is cut, with marks."""
    if record.size <= ceiling:
        return record
    error = record.error if record.error is None else _cut(record.error, ceiling // 4, None)
    if record.result is None:
        return replace(record, error=error)
    text = record.result if isinstance(record.result, str) else to_json(record.result).decode()
    return replace(record, result=_cut(text, ceiling * 3 // 4, record.seat), error=error)


def _cut(text: str, tokens: int, source: str | None) -> str:
    return excerpt(text, tokens * BYTES_PER_TOKEN, source)
