"""How an execution comes to its end, and the one function that says which status, result and error that means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from db.errors import StoreError
from db.status import ExecutionStatus
from runner.errors import Interrupted, RunnerError
from runner.llm.protocol import ModelError
from runner.result import Outcome, Problem, Result, failed, partial, stopped, summarise

CauseKind = Literal["user", "deadline", "parent", "shutdown", "fenced"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an execution was stopped. After `shutdown` and `fenced` nothing is written: somebody else goes on with it."""

    kind: CauseKind
    by: str = ""
    reason: str = ""

    @property
    def silent(self) -> bool:
        """Whether the execution must leave its row as it is."""
        return self.kind in ("shutdown", "fenced")


@dataclass(frozen=True, slots=True)
class Dismissal:
    """Why an execution that had not begun never will: something it needs did not succeed or is not allowed (`blocked`), or
    it is no longer wanted (`skipped`)."""

    status: Literal["blocked", "skipped"]
    problem: Problem


End = Result | Cause | Dismissal | Exception
"""How an execution comes to its end: with an answer, stopped, dismissed before it began, or by an error."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is written at the end."""

    status: ExecutionStatus
    result: Result
    error_type: str | None = None
    error: str | None = None
    stopped: Cause | None = None


def verdict(end: End, found: str) -> Verdict:
    """The status an end means: an answer → completed, deadline → timed_out, a stop → cancelled, anything else → failed."""
    if isinstance(end, Result):
        if end.outcome is Outcome.FAILED:
            problem = end.errors[0] if end.errors else Problem("failed", end.summary)
            told = end if end.errors else replace(end, errors=(problem,))
            return Verdict(ExecutionStatus.FAILED, told, problem.type, problem.message)
        return Verdict(ExecutionStatus.COMPLETED, end)
    if isinstance(end, Cause):
        if end.kind == "deadline":
            problem = Problem("timeout", "its time ran out", recommendation="give it more time")
            return Verdict(ExecutionStatus.TIMED_OUT, partial(found, "timeout", (problem,)), "timeout", problem.message)
        return Verdict(ExecutionStatus.CANCELLED, stopped(found), stopped=end)
    if isinstance(end, Dismissal):
        problem = end.problem
        result = Result(Outcome.BLOCKED, summarise(problem.message), None, problem.type, errors=(problem,))
        return Verdict(ExecutionStatus(end.status), result, problem.type, problem.message)
    problem = _problem(end)
    return Verdict(ExecutionStatus.FAILED, failed(problem, found), problem.type, problem.message)


def _problem(error: Exception) -> Problem:
    hint = getattr(error, "hint", "") or None
    if isinstance(error, ModelError):
        message = f"the model could not answer: {error}"
        return Problem("model", message, error.kind, "high", error.recoverable, hint)
    if isinstance(error, StoreError):
        return Problem("store", str(error), None, "critical", recoverable=False, recommendation=hint)
    if isinstance(error, Interrupted):
        return Problem("interrupted", str(error), None, "high", recommendation=hint)
    if isinstance(error, RunnerError):
        return Problem("refused", str(error), None, "high", recoverable=False, recommendation=hint)
    message, hint = f"an internal error: {type(error).__name__}", "look at `outrider show` and the log"
    return Problem("internal", message, None, "critical", recoverable=False, recommendation=hint)
