"""The report of a command: one result of what its agents brought, for one work item and for a batch of them.

Pure. Owns how outcomes add up, and what people read. Must not know: who worked, or how the board is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.answer import answer_text, processed
from runner.commands.call import Call
from runner.planning.answering import is_raw
from runner.result import Outcome, Problem, Result, summarise
from runner.returns import leaves

FILE = "file"
"""What an artifact is called that nobody gave a kind."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one work item, or of a call without any."""

    number: int | None
    result: Result
    notes: tuple[str, ...] = ()
    """What the board says now."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What somebody brought."""

    agent: str
    result: Result
    critical: bool = True

    @property
    def holds(self) -> bool:
        """Whether it goes on after this."""
        return self.result.outcome is Outcome.COMPLETED or not self.critical


def united(phases: Sequence[Phase], artifact: str | None) -> Result:
    """The result of those who worked one after the other: the last one's who matters, with all that was made.

    What is there when a later one did not succeed is a part of the whole. A failure that does not matter is only listed.
    """
    decisive = [each for each in phases if each.critical] or list(phases)
    last = decisive[-1]
    outcome = last.result.outcome
    if outcome is Outcome.FAILED and any(each.result.outcome is Outcome.COMPLETED for each in decisive):
        outcome = Outcome.PARTIAL
    made = [_named(each, artifact) for phase in phases for each in phase.result.artifacts]
    errors = [*last.result.errors, *(error for phase in phases if not phase.critical for error in phase.result.errors)]
    return replace(
        last.result,
        outcome=outcome,
        artifacts=_once(made),
        errors=tuple(errors),
        next_steps=tuple(dict.fromkeys(step for phase in phases for step in phase.result.next_steps)),
        signals={},
        metadata=_warnings([phase.result for phase in phases]),
    )


def told(call: Call, reports: Sequence[Report]) -> Result:
    """The whole: one report as it is, several as a batch. Its text is what people read, its `answer` what programs do."""
    batch = len(reports) > 1
    result = _batch(reports) if batch else reports[0].result
    notes = [note for report in reports for note in report.notes]
    shown = replace(result, summary=_listed(reports)) if batch else _in_full(result)
    text = answer_text(call.line, shown, notes)
    metadata = {**result.metadata, "command": call.command.name, "answer": processed(result)}
    return replace(result, output=text, signals={"worded": True}, metadata=metadata)


def _batch(reports: Sequence[Report]) -> Result:
    results = [report.result for report in reports]
    done = sum(result.outcome is Outcome.COMPLETED for result in results)
    some = any(result.outcome in (Outcome.COMPLETED, Outcome.PARTIAL) for result in results)
    outcome = Outcome.COMPLETED if done == len(results) else Outcome.PARTIAL if some else Outcome.FAILED
    unfinished = next((result.reason for result in results if result.outcome is not Outcome.COMPLETED), None)
    return Result(
        outcome,
        f"{done} of {len(results)} work items completed",
        reason=unfinished,
        artifacts=_once([each for result in results for each in result.artifacts]),
        errors=tuple(_of_item(error, report.number) for report in reports for error in report.result.errors),
        next_steps=tuple(dict.fromkeys(step for result in results for step in result.next_steps)),
        metadata=_warnings(results),
    )


def _listed(reports: Sequence[Report]) -> str:
    """A line for each work item."""
    lines = [f"- {each.number}: {each.result.outcome.value}: {' '.join(each.result.summary.split())}" for each in reports]
    return "\n".join([f"{_batch(reports).summary}:", *lines])


def _in_full(result: Result) -> Result:
    """With all that was said, where it was said in words."""
    said = isinstance(result.output, str) and result.outcome is Outcome.COMPLETED and not is_raw(result.output)
    return replace(result, summary=result.output) if said else result


def plan_in(result: Result) -> str | None:
    """Where the plan is that a result brings, if it brings one; what leads out of the folder is none."""
    paths = (str(each.get("path") or "") for each in result.artifacts if each.get("type") == "plan")
    return next((path for path in paths if path and not leaves(path)), None)


def not_begun(why: str) -> Result:
    """Of an item nobody came to work on."""
    problem = Problem("not_started", f"nobody began to work on it ({why})")
    return Result(Outcome.FAILED, summarise(problem.message), None, why, errors=(problem,))


def _of_item(problem: Problem, number: int | None) -> Problem:
    return replace(problem, context={**problem.context, "task_number": number})


def _named(artifact: Mapping[str, Any], kind: str | None) -> Mapping[str, Any]:
    """A file that nobody gave a kind is what the command makes."""
    return {**artifact, "type": kind} if kind is not None and artifact.get("type", FILE) == FILE else artifact


def _once(artifacts: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    unique: list[Mapping[str, Any]] = []
    for each in artifacts:
        if each not in unique:
            unique.append(each)
    return tuple(unique)


def _warnings(results: Sequence[Result]) -> dict[str, Any]:
    warnings = list(dict.fromkeys(each for result in results for each in result.metadata.get("warnings", ())))
    return {"warnings": warnings} if warnings else {}
