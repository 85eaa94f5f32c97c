"""Result: what every execution returns, for any strategy and any end.

Pure. Owns the form and its JSON, the summary rule, the signals to a plan, the error codes for programs with next steps for
people, and the citations of calls: a cited call that was never made is `unverified`. Metadata is stamped by the runtime,
never requested from a model. An error that propagates through several executions keeps its first origin.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, get_args

from pydantic_core import PydanticSerializationError, from_json, to_json

from runner.marks import folded
from runner.messages import clean_data
from runner.provider_error import PROVIDER, in_words
from runner.text import FENCE, json_of

SUMMARY_LIMIT = 500
"""Maximum characters of a summary: the runtime's are cut, an agent's are refused."""
TOOL_UNAVAILABLE = "tool_unavailable"
"""Type of a problem and reason of a result when a required server was unavailable."""
BUDGETS = ("cost_budget", "token_budget")
"""Reasons that a retry cannot change."""

Signals = Mapping[str, bool | str]
"""What a result signals to its plan: `is_empty`, `needs_replan` and `replan_reason`; only those that are set."""


OWN_WORDS = "own_words"
"""The signal of a result whose agent explained its failure itself: that text may be shown to a person."""


class Outcome(StrEnum):
    """The completeness of an answer, independent of the status."""

    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error inside a result, for people and for the agent above."""

    type: str
    message: str
    code: str | None = None
    severity: str = "medium"
    recoverable: bool = True
    """Whether a retry may succeed; assumed unless known otherwise."""
    recommendation: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_full(self) -> str:
        """The message for people, with the provider's error, which no prompt shows."""
        said = in_words(self.context.get(PROVIDER))
        return f"{self.message}; the provider said: {said}" if said else self.message

    def because_of(self, cause: Problem | None) -> Problem:
        """This problem with its cause's `recoverable`, recommendation and provider error."""
        if cause is None:
            return self
        said = {PROVIDER: cause.context[PROVIDER]} if PROVIDER in cause.context else {}
        advice = self.recommendation or cause.recommendation
        return replace(self, recoverable=cause.recoverable, recommendation=advice, context={**said, **self.context})

    @property
    def for_models(self) -> Problem:
        """This problem without the provider's error."""
        if PROVIDER not in self.context:
            return self
        return replace(self, context={name: each for name, each in self.context.items() if name != PROVIDER})


@dataclass(frozen=True, slots=True)
class Result:
    """The answer of an execution."""

    outcome: Outcome
    summary: str
    output: Any = None
    """Any JSON or text: the full answer."""
    reason: str | None = None
    """Why the answer is incomplete: `time_budget`, `max_iterations`, `cancelled` …"""
    artifacts: Sequence[Mapping[str, Any]] = ()
    errors: Sequence[Problem] = ()
    next_steps: Sequence[str] = ()
    signals: Signals = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The answer as text; structured output as JSON."""
        if self.output is None:
            return self.summary
        return self.output if isinstance(self.output, str) else to_json(self.output, indent=2).decode()

    @property
    def why(self) -> str:
        """The text of an unsuccessful result: the first error, then its output."""
        if not self.errors:
            return self.text
        first = self.errors[0].message
        return first if self.output is None or first.strip() in self.text else f"{first}\n{self.text}"

    @property
    def problem(self) -> Problem | None:
        """Its first error, which explains why it is incomplete."""
        return self.errors[0] if self.errors else None

    def stamped(self, **metadata: Any) -> Result:
        """This result with more metadata."""
        return replace(self, metadata={**self.metadata, **metadata})

    def to_json(self) -> str:
        """The stored form. It never fails, so that an end can always be written."""
        try:
            return to_json(self).decode()
        except PydanticSerializationError:
            return to_json(clean_data(asdict(self))).decode()

    @classmethod
    def of_json(cls, stored: str) -> Result:
        """Read a stored result."""
        values = from_json(stored)
        values["outcome"] = Outcome(values["outcome"])
        values["errors"] = tuple(Problem(**problem) for problem in values["errors"])
        values["artifacts"], values["next_steps"] = tuple(values["artifacts"]), tuple(values["next_steps"])
        return cls(**values)


def summarise(text: str) -> str:
    """A summary made by the runtime: the first paragraph that is more than a heading, cut at a word."""
    begin = [each.strip() for each in text.strip().split("\n\n", 4)[:4]]
    said = (each for each in begin if each and ("\n" in each or not each.startswith("#")))
    first = next(said, begin[0])
    if len(first) <= SUMMARY_LIMIT:
        return first
    return first[: SUMMARY_LIMIT - 1].rsplit(" ", 1)[0][: SUMMARY_LIMIT - 1] + "…"


def completed(text: str) -> Result:
    """A complete answer in plain text."""
    return Result(Outcome.COMPLETED, summarise(text), text)


def partial(text: str, reason: str, errors: Sequence[Problem] = ()) -> Result:
    """An incomplete answer; `failed` if there is no text at all."""
    if not text.strip():
        nothing = f"nothing was found ({reason})"
        errors = errors or (Problem("failed", nothing, recoverable=reason not in BUDGETS),)
        return Result(Outcome.FAILED, nothing, None, reason, errors=errors)
    return Result(Outcome.PARTIAL, summarise(text), text, reason, errors=errors)


def stopped(text: str) -> Result:
    """The result of a cancelled execution: never a failure, even without text."""
    if not text.strip():
        return Result(Outcome.PARTIAL, "stopped before anything was found", None, "cancelled")
    return partial(text, "cancelled")


def failed(problem: Problem, found: str = "") -> Result:
    """A failure, with the findings up to then."""
    return Result(Outcome.FAILED, summarise(problem.message), found or None, problem.type, errors=(problem,))


def missing_servers(part: Result | None) -> list[Problem]:
    """The problems of a partial result that are due to missing required servers."""
    if part is None or part.outcome is not Outcome.PARTIAL:
        return []
    return [each for each in part.errors if each.type == TOOL_UNAVAILABLE]


def resting_on(result: Result, parts: Iterable[Result | None]) -> Result:
    """A result built from `parts`: partial if a part lacked a required server."""
    lacks = [each for part in parts for each in missing_servers(part)]
    if not lacks or result.outcome is not Outcome.COMPLETED:
        return result
    return replace(result, outcome=Outcome.PARTIAL, reason=TOOL_UNAVAILABLE, errors=(*result.errors, *lacks))


class Code(StrEnum):
    """Error codes for programs."""

    TIMEOUT = "TIMEOUT"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    TOOL_UNAVAILABLE = "TOOL_UNAVAILABLE"
    TOOL_FAILED = "TOOL_FAILED"
    BUILD_ERROR = "BUILD_ERROR"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    CYCLE_DETECTED = "CYCLE_DETECTED"
    MAX_DEPTH_EXCEEDED = "MAX_DEPTH_EXCEEDED"
    UNKNOWN_AGENT = "UNKNOWN_AGENT"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    LIMIT_REACHED = "LIMIT_REACHED"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    INTERRUPTED = "INTERRUPTED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    UNKNOWN_ERROR = "UNKNOWN_ERROR"


_CODES: Mapping[str, Code] = {
    "timeout": Code.TIMEOUT,
    "validation": Code.VALIDATION_FAILED,
    "validation_failed": Code.VALIDATION_FAILED,
    "invalid_input": Code.VALIDATION_FAILED,
    "unknown_command": Code.VALIDATION_FAILED,
    "usage": Code.VALIDATION_FAILED,
    "no_title": Code.VALIDATION_FAILED,
    "long_title": Code.VALIDATION_FAILED,
    "unknown_item": Code.VALIDATION_FAILED,
    "no_tool_call": Code.VALIDATION_FAILED,
    "planning_failed": Code.VALIDATION_FAILED,
    "tool_unavailable": Code.TOOL_UNAVAILABLE,
    "unavailable": Code.TOOL_UNAVAILABLE,
    "tool_error": Code.TOOL_FAILED,
    "build": Code.BUILD_ERROR,
    "build_error": Code.BUILD_ERROR,
    "file_not_found": Code.FILE_NOT_FOUND,
    "delegation_cycle": Code.CYCLE_DETECTED,
    "max_depth_exceeded": Code.MAX_DEPTH_EXCEEDED,
    "unknown_agent": Code.UNKNOWN_AGENT,
    "not_in_catalogue": Code.UNKNOWN_AGENT,
    "permission_denied": Code.PERMISSION_DENIED,
    "denied": Code.PERMISSION_DENIED,
    "limit": Code.LIMIT_REACHED,
    "wrapping_up": Code.LIMIT_REACHED,
    "not_started": Code.LIMIT_REACHED,
    "max_iterations": Code.LIMIT_REACHED,
    "budget": Code.BUDGET_EXCEEDED,
    "dependency_failed": Code.DEPENDENCY_FAILED,
    "execution": Code.EXECUTION_FAILED,
    "answer": Code.EXECUTION_FAILED,
    "failed": Code.EXECUTION_FAILED,
    "partial": Code.EXECUTION_FAILED,
    "blocked": Code.EXECUTION_FAILED,
    "function_failed": Code.EXECUTION_FAILED,
    "stage_failed": Code.EXECUTION_FAILED,
    "refused": Code.EXECUTION_FAILED,
    "interrupted": Code.INTERRUPTED,
    "store": Code.STORE_UNAVAILABLE,
}


def code_of(problem: Problem) -> str:
    """The code of a problem."""
    return problem.code or _CODES.get(problem.type, Code.UNKNOWN_ERROR).value


UNVERIFIED = "unverified"
"""The metadata key for cited handles that no call has."""
NAMED = 5
"""Handles that a warning names; further ones are counted."""
MOST = 100
"""Maximum handles of one answer that are looked up."""
LEAST_PREFIX = 14
"""Minimum characters of an abbreviated handle: people and models shorten them."""

_HANDLE = re.compile(
    r"(?<![\w-])(?:toolu_[\w-]{2,}|chatcmpl-tool-\w{4,}|call_[a-z0-9]{16,}(?![\w-]))"
    r"|\[call[\s:]+((?=[\w-]*[\d_-])[\w-]+|\w{12,})\s*\]"
)


def handles_of(text: str) -> list[str]:
    """The handles that a text cites, each once, in their spelling."""
    if text.isascii():
        read, places = text.lower(), None
    else:
        letters = [(letter, at) for at, each in enumerate(text) for letter in folded(each)]
        read, places = "".join(letter for letter, _ in letters), [at for _, at in letters]
    found: dict[str, None] = {}
    for match in _HANDLE.finditer(read):
        start, end = match.span(1) if match[1] else match.span()
        written = text[start:end] if places is None else text[places[start] : places[end - 1] + 1]
        found[written.rstrip("-_")] = None
    return list(found)[:MOST]


def unmade(handles: Sequence[str], calls: Collection[str]) -> list[str]:
    """The handles that match none of these calls."""
    return [each for each in handles if not any(_means(each, call) for call in calls)]


def _means(handle: str, call: str) -> bool:
    return call == handle or (len(handle) >= LEAST_PREFIX and call.startswith(handle))


def remark(handles: Sequence[str]) -> str:
    """The warning about handles that no call has."""
    named, more = ", ".join(f"`{each[:80]}`" for each in handles[:NAMED]), len(handles) - NAMED
    return f"unverified evidence: no call of this tree has the id {named}" + (f" and {more} more" if more > 0 else "")


ReplanReason = Literal["new_information", "intent_clarified", "missing_data"]
"""Why a plan should be revised although the step succeeded."""


def signals(*, is_empty: bool = False, needs_replan: bool = False, reason: object = None) -> Signals:
    """The signals that are set; a valid reason implies `needs_replan`."""
    known = reason if isinstance(reason, str) and reason in get_args(ReplanReason) else None
    found: dict[str, bool | str] = {"is_empty": True} if is_empty else {}
    if needs_replan or known is not None:
        found["needs_replan"] = True
    return found if known is None else {**found, "replan_reason": known}


def signalled(result: Result) -> Result:
    """The result with the signals in its output added to its own."""
    output = _object(result.output)
    found = signals(
        is_empty=_is_true(output, "is_empty", "isEmpty"),
        needs_replan=_is_true(output, "needs_replan", "needsReplan"),
        reason=output.get("replan_reason", output.get("replanReason")),
    )
    return replace(result, signals={**found, **result.signals}) if found else result


def _object(output: Any) -> Mapping[str, Any]:
    if isinstance(output, str) and output.startswith(("{", FENCE)):  # a report that quotes an object is none
        try:
            output = json_of(output)
        except ValueError:
            return {}
    return output if isinstance(output, Mapping) else {}


def _is_true(output: Mapping[str, Any], *names: str) -> bool:
    return any(output.get(name) is True for name in names)


NEXT_STEPS: Mapping[str, str] = {
    "delegation_cycle": "refactor the agents so that none dispatches an agent above it",
    "max_depth_exceeded": "simplify the workflow, or split it into several commands",
    "timeout": "resume it, or repeat the command, to continue from the results so far",
    "validation_failed": "report this: the sub-agent violates the standard return and must be fixed",
}


ORIGIN = "execution_id"
"""The key in an error's context of the execution in which it arose; kept by those that pass the error on."""


def explained(result: Result, session: str | None, agent: str, execution: str) -> Result:
    """The result with code and origin in each error, and a default next step."""
    if not result.errors:
        return result
    where = {"session_id": session, "subagent": agent, ORIGIN: execution}
    known = NEXT_STEPS.get(result.errors[0].type)
    return replace(
        result,
        errors=tuple(_told(each, where) for each in result.errors),
        next_steps=result.next_steps or ((known,) if known is not None else ()),
    )


def _told(problem: Problem, where: Mapping[str, Any]) -> Problem:
    return replace(problem, code=code_of(problem), context={**where, **problem.context})


Artifact = Mapping[str, Any]
WRITING = ("write_file", "edit_file")
"""The tools that change files; their answers name the file as `written`."""


def file_artifact(path: str) -> Artifact:
    """A file of a workspace: `workspace/path/in/it`."""
    return {"type": "file", "path": path}
