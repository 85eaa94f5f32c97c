"""Result: what every execution returns, whatever its strategy and however it ended.

Owns the shape, its JSON and the summary rule. Metadata is stamped by the runtime and never asked of a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from runner.provider_error import PROVIDER, in_words
from runner.transcript import clean_data

SUMMARY_LIMIT = 500
"""Characters of a summary; longer ones made by the runtime are cut, longer ones made by an agent are refused."""
TOOL_UNAVAILABLE = "tool_unavailable"
"""The type of a problem, and the reason of a result, where a server was missing that its agent cannot work without."""
BUDGETS = ("cost_budget", "token_budget")
"""Reasons that stay as they are however often it is tried."""

Signals = Mapping[str, bool | str]
"""What a result asks of the plan it is part of: `is_empty`, `needs_replan` and `replan_reason`; only what is so."""


OWN_WORDS = "own_words"
"""The signal of a result in which an agent says itself why it failed: that may be shown to a person."""


class Outcome(StrEnum):
    """What an execution has to show, apart from how it ended."""

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
    """Whether another attempt may succeed: so it is, unless it is known not to be."""
    recommendation: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)

    @property
    def in_full(self) -> str:
        """The message for people: with what a model's provider said, which no prompt shows."""
        said = in_words(self.context.get(PROVIDER))
        return f"{self.message}; the provider said: {said}" if said else self.message

    def because_of(self, cause: Problem | None) -> Problem:
        """The same, with what its cause knows: whether to try again, what to do about it, and what a provider said."""
        if cause is None:
            return self
        said = {PROVIDER: cause.context[PROVIDER]} if PROVIDER in cause.context else {}
        advice = self.recommendation or cause.recommendation
        return replace(self, recoverable=cause.recoverable, recommendation=advice, context={**said, **self.context})

    @property
    def for_models(self) -> Problem:
        """The same without what a provider said."""
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
    """Why it is not whole, when it is not: `time_budget`, `max_iterations`, `cancelled` …"""
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
        """The text of a result that did not succeed: first of all why, then what there is besides."""
        if not self.errors:
            return self.text
        first = self.errors[0].message
        return first if self.output is None or first.strip() in self.text else f"{first}\n{self.text}"

    @property
    def problem(self) -> Problem | None:
        """The first of its errors, which says why it is not whole."""
        return self.errors[0] if self.errors else None

    def stamped(self, **metadata: Any) -> Result:
        """This result with more metadata."""
        return replace(self, metadata={**self.metadata, **metadata})

    def to_json(self) -> str:
        """The stored form; whatever is in it, an end can be written."""
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
    """A summary made by the runtime: the first paragraph, cut at a word."""
    first = text.strip().split("\n\n", 1)[0].strip()
    if len(first) <= SUMMARY_LIMIT:
        return first
    return first[: SUMMARY_LIMIT - 1].rsplit(" ", 1)[0][: SUMMARY_LIMIT - 1] + "…"


def completed(text: str) -> Result:
    """A whole answer in plain text."""
    return Result(Outcome.COMPLETED, summarise(text), text)


def partial(text: str, reason: str, errors: Sequence[Problem] = ()) -> Result:
    """What there is when the rest is missing; `failed` when there is nothing at all."""
    if not text.strip():
        nothing = f"nothing was found ({reason})"
        errors = errors or (Problem("failed", nothing, recoverable=reason not in BUDGETS),)
        return Result(Outcome.FAILED, nothing, None, reason, errors=errors)
    return Result(Outcome.PARTIAL, summarise(text), text, reason, errors=errors)


def stopped(text: str) -> Result:
    """What there was when somebody wanted it to stop: never a failure, not even when it is nothing."""
    if not text.strip():
        return Result(Outcome.PARTIAL, "stopped before anything was found", None, "cancelled")
    return partial(text, "cancelled")


def failed(problem: Problem, found: str = "") -> Result:
    """A failure, with what was found before it."""
    return Result(Outcome.FAILED, summarise(problem.message), found or None, problem.type, errors=(problem,))


def missing_servers(part: Result | None) -> list[Problem]:
    """What a result lacks because a server went away that its agent cannot work without."""
    if part is None or part.outcome is not Outcome.PARTIAL:
        return []
    return [each for each in part.errors if each.type == TOOL_UNAVAILABLE]


def resting_on(result: Result, parts: Iterable[Result | None]) -> Result:
    """A result that was made from others: what they lack, it lacks, too."""
    lacks = [each for part in parts for each in missing_servers(part)]
    if not lacks or result.outcome is not Outcome.COMPLETED:
        return result
    return replace(result, outcome=Outcome.PARTIAL, reason=TOOL_UNAVAILABLE, errors=(*result.errors, *lacks))
