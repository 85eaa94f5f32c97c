"""The report of a command: one result from the results of its agents, for one work item or for a batch of them.

Pure. Owns how outcomes add up, the form that programs process and the sentences that people read. It does not know which
agent worked, or how the board is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.result import Outcome, Problem, Result, code_of, summarise
from runner.returns import leaves, own_fields
from runner.strategies.route.commands.parse import CommandCall
from runner.text import is_raw

FILE = "file"
"""The kind of an artifact that has none of its own."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one work item, or of a call without any."""

    number: int | None
    result: Result
    notes: tuple[str, ...] = ()
    """Changes on the board, in words."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The result of one phase's agent."""

    agent: str
    result: Result
    critical: bool = True

    @property
    def holds(self) -> bool:
        """Whether the next phase may start."""
        return self.result.outcome is Outcome.COMPLETED or not self.critical


def united(phases: Sequence[Phase], artifact: str | None) -> Result:
    """Combine the results of phases that ran in order: the result of the last critical one, with all artifacts.

    If a later critical phase failed after one that completed, the whole is partial. Other failures are only listed.
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


def told(call: CommandCall, reports: Sequence[Report]) -> Result:
    """The result of the call: one report as it is, several as a batch. Text is for people, `answer` for programs."""
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
    """Use the full text as the summary, if it is prose."""
    said = isinstance(result.output, str) and result.outcome is Outcome.COMPLETED and not is_raw(result.output)
    return replace(result, summary=result.output) if said else result


def plan_in(result: Result) -> str | None:
    """The path of the plan among a result's artifacts, if it has one; a path that leaves the folder does not count."""
    paths = (str(each.get("path") or "") for each in result.artifacts if each.get("type") == "plan")
    return next((path for path in paths if path and not leaves(path)), None)


def not_begun(why: str) -> Result:
    """The result of a work item that was not started."""
    problem = Problem("not_started", f"it was not started ({why})")
    return Result(Outcome.FAILED, summarise(problem.message), None, why, errors=(problem,))


def _of_item(problem: Problem, number: int | None) -> Problem:
    return replace(problem, context={**problem.context, "task_number": number})


def _named(artifact: Mapping[str, Any], kind: str | None) -> Mapping[str, Any]:
    """A file without a kind gets the kind of artifact that the command makes."""
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


MANUAL = "Manual intervention is needed"
AGAIN = "Try again: it may succeed"


def processed(result: Result) -> dict[str, Any]:
    """A result as programs process it; the agent's own fields are passed on."""
    told: dict[str, Any] = {**own_fields(result), "success": result.outcome is Outcome.COMPLETED, "message": result.summary}
    if result.outcome in (Outcome.COMPLETED, Outcome.PARTIAL):
        told["artifacts"] = [dict(each) for each in result.artifacts]
    if result.outcome is not Outcome.COMPLETED:
        told["errors"] = [_error(each) for each in result.errors]
    match result.outcome:
        case Outcome.PARTIAL:
            told |= {"partial": True, "recovery": recovery(result)}
        case Outcome.FAILED:
            told["recovery"] = recovery(result)
        case Outcome.BLOCKED:
            told |= {"blocked": True, "action_required": recovery(result)}
        case Outcome.COMPLETED:
            pass
    return told


def recovery(result: Result) -> list[str]:
    """Advice for an incomplete result: its own, else whether a retry may help."""
    if result.next_steps:
        return list(result.next_steps)
    return [AGAIN if all(each.recoverable for each in result.errors) else MANUAL]


def answer_text(command: str, result: Result, notes: Sequence[str] = ()) -> str:
    """The answer to a command line such as `/implement 191` for people: its status, artifacts and next steps."""
    line = command if command.startswith("/") else f"/{command}"
    parts = [
        f"Command: {line[1:].split(maxsplit=1)[0]}\nStatus: {_status(result)}",
        result.summary.strip(),
        _artifacts(result.artifacts),
        _errors(result.errors),
        _advice(line, result),
        "\n".join(notes),
    ]
    return "\n\n".join(part for part in parts if part)


def _error(problem: Problem) -> dict[str, Any]:
    return {
        "type": problem.type,
        "message": problem.message,
        "code": code_of(problem),
        "severity": problem.severity,
        "recoverable": problem.recoverable,
        "recommendation": problem.recommendation,
        "context": dict(problem.context),
    }


def _status(result: Result) -> str:
    status = result.outcome.value.capitalize()
    if result.outcome is not Outcome.PARTIAL:
        return status
    first = result.errors[0] if result.errors else None
    seconds = first.context.get("timeout") if first is not None and first.type == "timeout" else None
    why = f"timeout after {_spoken(seconds)}" if seconds else (result.reason or "").replace("_", " ")
    return f"{status} ({why})" if why else status


def _spoken(seconds: float) -> str:
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= size and seconds % size == 0:
            return _counted(seconds / size, unit)
    return _counted(seconds, "second")


def _counted(number: float, unit: str) -> str:
    return f"{number:g} {unit}" if number == 1 else f"{number:g} {unit}s"


def _artifacts(artifacts: Sequence[Mapping[str, Any]]) -> str:
    if not artifacts:
        return ""
    lines = (f"{_title(each)}: {each.get('path') or each.get('url') or ''}".rstrip(": ") for each in artifacts)
    return "\n".join(("Artifacts:", *(f"- {' '.join(line.split())}" for line in lines)))


def _title(artifact: Mapping[str, Any]) -> str:
    return str(artifact.get("title") or str(artifact.get("type") or "file").replace("_", " ").capitalize())


def _errors(problems: Sequence[Problem]) -> str:
    shown = [f"{each.message} ({code_of(each)})" for each in problems]
    if len(shown) < 2:
        return f"Error: {shown[0]}" if shown else ""
    return "\n".join(("Errors:", *(f"- {each}" for each in shown)))


def _advice(line: str, result: Result) -> str:
    """Next steps and recommendations, and how to continue an incomplete result."""
    wise = list(dict.fromkeys(each.recommendation for each in result.errors if each.recommendation))
    said = [f"Recommendation: {each}" for each in wise]
    said += [f"Next step: {each}" for each in result.next_steps if each not in wise]
    if result.outcome is Outcome.PARTIAL:
        said.append(f"To resume: run {line}")
    elif result.outcome is not Outcome.COMPLETED:
        again = all(each.recoverable for each in result.errors) or bool(wise)
        said.append(f"Then retry: {line}" if again else MANUAL)
    return "\n".join(said)
