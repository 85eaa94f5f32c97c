"""Acceptance: the demands of an agent's definition on its answer, and the note for an answer that does not meet them.

Owns the demands: a tool was called, the answer fits a schema or is a standard return. Pure, except that the artifacts of
such a return are looked up. Invariant: an answer accepted as completed meets every demand. Each demand is pointed out once;
then the execution fails. An answer that says it is incomplete is kept, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import to_json

from registry import AgentSpec, misfits
from runner.errors import ValidationError
from runner.messages import CORRECTION, REMINDER
from runner.result import OWN_WORDS, Outcome, Problem, Result, failed, signalled, summarise
from runner.returns import REQUIRED, folders_of, invalid_return, read_return
from runner.strategies.loop.transcript import Transcript
from runner.text import json_of, read_json
from runner.tools.finish import NAME as FINISH

_REMIND = (
    "You have not called any of your tools, so nothing was looked up and nothing was done. Carry out the task with them "
    "now. If that is impossible, report it with `finish`: `blocked` or `failed`, and why."
)
_CORRECT = (
    "Your answer does not fit the schema you were given:\n{faults}\n"
    "Give the whole answer again, as one JSON value that fits it, without any text around it."
)
_RETURN_AGAIN = (
    "Your answer is not the return you were asked for: {fault}.\n"
    "Give the whole return again, as one JSON object, without any text around it."
)


@dataclass(frozen=True, slots=True)
class Objection:
    """A demand that an answer does not meet."""

    kind: str
    """The kind of the message that points it out."""
    text: str
    """The message to the model."""
    problem: Problem
    """The failure if the next answer does not meet it either."""


def judge(
    agent: AgentSpec, answer: Result, transcript: Transcript, wrap_up: str | None, session: str
) -> Result | Objection:
    """Turn an answer into a result, or into an objection for the model; no objection once it has to wrap up."""
    if answer.outcome in (Outcome.FAILED, Outcome.BLOCKED):
        return signalled(answer)
    answer, misshapen = _standard(agent, answer, session) if agent.returns else _fitted(agent, answer)
    objections = [*_idle(agent, transcript), *misshapen]
    if objections and answer.outcome is Outcome.COMPLETED:
        first = objections[0]
        if first.kind in transcript.objections:
            return failed(first.problem, answer.text)
        if wrap_up is None and not transcript.exhausted:
            return first
        answer = replace(answer, outcome=Outcome.PARTIAL, reason=wrap_up or transcript.shortfall)
    if objections:
        answer = answer.stamped(warnings=[each.problem.message for each in objections])
    return signalled(_owned_up(agent, answer))


def _owned_up(agent: AgentSpec, answer: Result) -> Result:
    """Fail an answer that reports `success: false` where the agent's schema requires `success`."""
    said = answer.output if isinstance(answer.output, Mapping) else {}
    if "success" not in (agent.output_schema or {}).get("required", ()) or said.get("success") is not False:
        return answer
    error = said.get("error")
    message = error.get("message") if isinstance(error, Mapping) else error
    why = message if isinstance(message, str) and message.strip() else None
    problem = Problem("failed", why or "it reported a failure")
    signals = {**answer.signals, OWN_WORDS: True} if why is not None else answer.signals
    return replace(answer, outcome=Outcome.FAILED, reason=problem.type, errors=(problem, *answer.errors), signals=signals)


def _idle(agent: AgentSpec, transcript: Transcript) -> Iterator[Objection]:
    if agent.require_tool_call and not transcript.called - {FINISH}:
        advice = "check its tools and instructions, or remove `require_tool_call`"
        message = "it answered without calling any of its tools"
        yield Objection(REMINDER, _REMIND, Problem("no_tool_call", message, severity="high", recommendation=advice))


def _standard(agent: AgentSpec, answer: Result, session: str) -> tuple[Result, Sequence[Objection]]:
    """Turn a standard return into a result, or into objections."""
    try:
        value = _spelled(answer.output, _is_return)
        read = read_return(value, session, folders_of(agent))
    except (ValueError, ValidationError) as error:
        problem = invalid_return(error, answer.output)
        return answer, (Objection(CORRECTION, _RETURN_AGAIN.format(fault=error), problem),)
    return replace(read, signals={**read.signals, **answer.signals}), ()


def _spelled(output: Any, fits: Callable[[Any], bool]) -> Any:
    """The value of an output: the output as JSON, else the first JSON value in its prose that fits. Raises ValueError."""
    if not isinstance(output, str):
        return output
    try:
        return json_of(output)
    except ValueError:
        value = read_json(output, fits)
        if value is None:
            raise
        return value


def _is_return(value: Any) -> bool:
    return isinstance(value, Mapping) and all(name in value for name in REQUIRED)


def _misshapen(faults: tuple[str, ...]) -> Sequence[Objection]:
    if not faults:
        return ()
    message = f"its answer does not fit its `output_schema`: {'; '.join(faults)}"
    advice = "read its answer with `outrider show`; try a simpler schema or another model"
    problem = Problem("validation", message, severity="high", recoverable=False, recommendation=advice)
    return (Objection(CORRECTION, _CORRECT.format(faults="\n".join(f"- {fault}" for fault in faults)), problem),)


def _fitted(agent: AgentSpec, answer: Result) -> tuple[Result, Sequence[Objection]]:
    """Replace the output by the value that fits the schema, or return objections."""
    schema, output = agent.output_schema, answer.output
    if schema is None:
        return answer, ()
    text_fits = isinstance(output, str) and not misfits(output, schema)  # a schema for a text also accepts an unquoted one
    try:
        value = _spelled(output, lambda found: not text_fits and not misfits(found, schema))
        faults = tuple(misfits(value, schema))
    except ValueError as error:
        value, faults = output, (f"`$`: {error}",)
    if faults and text_fits:
        value, faults = output, ()
    return (answer, _misshapen(faults)) if faults else (_with_output(answer, value), ())


def _with_output(answer: Result, value: Any) -> Result:
    said = isinstance(answer.output, str) and answer.summary == summarise(answer.output)
    return replace(answer, output=value, summary=summarise(in_words(value)) if said else answer.summary)


def in_words(value: Any) -> str:
    """A text for a value: its `summary`, else its first text of more than one word, else all of it as JSON."""
    own = value.get("summary") if isinstance(value, Mapping) else None
    if isinstance(own, str) and own.strip():
        return own
    return next((text for text in _texts(value) if " " in text.strip()), None) or to_json(value).decode()


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, in order, at any depth."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping | list):
            left += reversed(list(each.values()) if isinstance(each, Mapping) else each)
