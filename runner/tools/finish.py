"""`finish`: an agent reports more than plain text: partial, blocked, failed, empty, artifacts, next steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from pydantic import Field

from runner.messages import ToolCall
from runner.result import OWN_WORDS, SUMMARY_LIMIT, Outcome, Problem, ReplanReason, Result, signals
from runner.tools.builtin import Arguments, OwnTool, answer
from runner.tools.protocol import ToolResult

NAME = "finish"


class FinishArguments(Arguments):
    status: Literal["completed", "partial", "blocked", "failed"] = Field(description="How far the task was carried out.")
    summary: str = Field(min_length=1, max_length=SUMMARY_LIMIT, description="The answer in at most 500 characters.")
    output: Any = Field(default=None, description="The full answer: text or any JSON. Absent: the summary.")
    artifacts: list[dict[str, Any]] = Field(default=[], description="Things made, each with `type` and `path`.")
    reason: str | None = Field(default=None, description="What was missing, when the status is not completed.")
    next_steps: list[str] = Field(default=[], description="What the caller should do next.")
    is_empty: bool = Field(default=False, description="True if the task was carried out and there was nothing to find.")
    needs_replan: bool = Field(default=False, description="True if the plan you are part of should change.")
    replan_reason: ReplanReason | None = Field(default=None, description="Why it should change.")


DESCRIPTION = (
    "End your work with a structured report. Only needed when plain text does not say it: the task was done in part, "
    "is blocked, failed, or found nothing. Otherwise just answer in plain text."
)


def finish_tool(accept: Callable[[Result], str | None]) -> OwnTool[FinishArguments]:
    """The tool; `accept` takes the result, or returns why it cannot be accepted yet."""

    async def run(_call: ToolCall, arguments: FinishArguments) -> ToolResult:
        refusal = accept(_result(arguments))
        if refusal is not None:
            return ToolResult(refusal, is_error=True, error_type="not_yet", ran=False)
        return answer({"accepted": True}, ran=False)

    return OwnTool(NAME, DESCRIPTION, FinishArguments, run, effect="idempotent")


def reported(arguments: Mapping[str, Any]) -> Result:
    """The result reported by an accepted call."""
    return _result(FinishArguments.model_validate(dict(arguments)))


def _result(arguments: FinishArguments) -> Result:
    outcome = Outcome(arguments.status)
    errors: tuple[Problem, ...] = ()
    asked = signals(is_empty=arguments.is_empty, needs_replan=arguments.needs_replan, reason=arguments.replan_reason)
    if outcome in (Outcome.FAILED, Outcome.BLOCKED):
        # A blocked task needs something from outside: a retry does not help.
        again = outcome is Outcome.FAILED
        errors = (Problem(outcome.value, arguments.reason or arguments.summary, recoverable=again),)
    return Result(
        outcome,
        arguments.summary,
        arguments.summary if arguments.output is None else arguments.output,
        arguments.reason,
        artifacts=tuple(arguments.artifacts),
        errors=errors,
        next_steps=tuple(arguments.next_steps),
        signals={**asked, OWN_WORDS: True} if errors else asked,
    )
