"""The verdict on an execution: the status, result and error that an end means. Pure, but for the clock.

Owns the causes of a stop and the one function that maps every end, including any exception, to a terminal status.
`runner/core/ending.py` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from traceback import format_tb
from typing import Literal

import anyio

from db.clock import loop_time
from db.errors import StoreError
from db.status import ExecutionStatus
from runner.errors import Interrupted, Refusal, RunnerError, ServerMissing
from runner.llm.protocol import ModelError
from runner.provider_error import PROVIDER
from runner.result import TOOL_UNAVAILABLE, Outcome, Problem, Result, failed, partial, stopped, summarise

OUT_OF_TIME = "it timed out"

CauseKind = Literal["user", "deadline", "parent", "shutdown", "fenced"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an execution was stopped. After `shutdown` and `fenced` nothing is written: another process resumes it."""

    kind: CauseKind
    by: str = ""
    reason: str = ""
    seconds: float | None = None
    """The timeout, for `deadline`."""

    @property
    def silent(self) -> bool:
        """Whether the execution must leave its row as it is."""
        return self.kind in ("shutdown", "fenced")


@dataclass(frozen=True, slots=True)
class Dismissal:
    """Why a pending execution will never start: a dependency failed or is not allowed (`blocked`), or it is not needed any
    more (`skipped`)."""

    status: Literal["blocked", "skipped"]
    problem: Problem


End = Result | Cause | Dismissal | Exception
"""How an execution ends: with an answer, stopped, dismissed before its start, or with an error."""


@dataclass(frozen=True, slots=True)
class Final:
    """The end as stored in the row."""

    status: ExecutionStatus
    result: Result | None
    error: str | None
    at: float
    """On the event loop's clock."""


@dataclass(slots=True)
class Life:
    """The mutable state of an execution."""

    status: ExecutionStatus
    epoch: int
    """The fencing token of this process (column `attempt`): a write with an older one changes nothing."""
    created_at: float = field(default_factory=anyio.current_time)
    ended_at: float | None = None
    result: Result | None = None
    error: str | None = None
    cause: Cause | None = None
    failed: bool = False
    """Whether its strategy ended without a result, so that its children are being cancelled."""

    @property
    def elapsed(self) -> float:
        """Seconds since its spawn."""
        return (self.ended_at if self.ended_at is not None else loop_time()) - self.created_at

    def end(self, final: Final | None) -> None:
        """Adopt the stored end, if there is one."""
        if final is not None:
            self.status, self.result, self.error, self.ended_at = final.status, final.result, final.error, final.at


@dataclass(frozen=True, slots=True)
class Verdict:
    """The content of the last write."""

    status: ExecutionStatus
    result: Result
    error_type: str | None = None
    error: str | None = None
    stopped: Cause | None = None
    stack_trace: str | None = None
    """Where an internal error was raised: lines of code, without its message."""

    @property
    def severity(self) -> str | None:
        """The severity for the operator; None if it is no error. A stop never is one."""
        if self.status is ExecutionStatus.TIMED_OUT and self.error_type == "timeout":
            return "medium"
        if self.status is not ExecutionStatus.FAILED:
            return None
        return "critical" if any(each.severity == "critical" for each in self.result.errors[:1]) else "high"


def verdict(end: End, found: str) -> Verdict:
    """Map an end: an answer → completed, deadline → timed_out, a stop → cancelled, anything else → failed."""
    if isinstance(end, Result):
        if end.outcome is Outcome.FAILED:
            problem = end.errors[0] if end.errors else Problem("failed", end.summary)
            told = end if end.errors else replace(end, errors=(problem,))
            return Verdict(ExecutionStatus.FAILED, told, problem.type, problem.in_full)
        return Verdict(ExecutionStatus.COMPLETED, end)
    if isinstance(end, Cause):
        if end.kind == "deadline":
            problem = Problem("timeout", OUT_OF_TIME, recommendation="raise its timeout", context=_time_of(end))
            return Verdict(ExecutionStatus.TIMED_OUT, _cut_off(found, problem), problem.type, problem.message)
        return Verdict(ExecutionStatus.CANCELLED, stopped(found), stopped=end)
    if isinstance(end, Dismissal):
        problem = end.problem
        result = Result(Outcome.BLOCKED, summarise(problem.message), None, problem.type, errors=(problem,))
        return Verdict(ExecutionStatus(end.status), result, problem.type, problem.message)
    problem = _problem(end)
    trace = "".join(format_tb(end.__traceback__)) if problem.type == "internal" else None
    return Verdict(ExecutionStatus.FAILED, failed(problem, found), problem.type, problem.in_full, stack_trace=trace)


def salvaged(error: Exception, found: str, reason: str | None) -> End:
    """The end after a failed model call: a partial result if the execution was concluding, else the error."""
    if isinstance(error, ModelError) and error.recoverable and reason is not None and found.strip():
        return partial(found, reason, (_problem(error),))
    return error


def said_by_provider(error: Exception) -> str:
    """The provider's error message, for a log line."""
    said = error.provider.shown if isinstance(error, ModelError) and error.provider is not None else None
    return f"; the provider said {said}" if said else ""


def _time_of(deadline: Cause) -> dict[str, float]:
    return {"timeout": deadline.seconds} if deadline.seconds is not None else {}


def _cut_off(found: str, problem: Problem) -> Result:
    """The result of a timeout: always partial, even without findings, because the execution can be continued."""
    if found.strip():
        return partial(found, problem.type, (problem,))
    return Result(Outcome.PARTIAL, f"{problem.message} before anything was found", None, problem.type, errors=(problem,))


def missing_server(error: ServerMissing) -> Problem:
    """The problem of a missing required server; recoverable, because the server may return."""
    context = {"server": error.server}
    return Problem(TOOL_UNAVAILABLE, str(error), None, "high", recommendation=error.hint, context=context)


def _problem(error: Exception) -> Problem:
    hint = getattr(error, "hint", "") or None
    if isinstance(error, ModelError):
        message = f"the model could not answer: {error}"
        said = {PROVIDER: error.provider.shown} if error.provider is not None else {}
        return Problem("model", message, error.kind, "high", error.recoverable, hint, said)
    if isinstance(error, StoreError):
        return Problem("store", str(error), None, "critical", recoverable=False, recommendation=hint)
    if isinstance(error, Interrupted):
        return Problem("interrupted", str(error), None, "high", recommendation=hint)
    if isinstance(error, Refusal):
        return Problem(error.kind, str(error), None, "high", recoverable=False, recommendation=hint, context=error.context)
    if isinstance(error, ServerMissing):
        return missing_server(error)
    if isinstance(error, RunnerError):
        return Problem("refused", str(error), None, "high", recoverable=False, recommendation=hint)
    message, hint = f"internal error: {type(error).__name__}", "see `outrider show` and the log"
    return Problem("internal", message, None, "critical", recoverable=False, recommendation=hint)
