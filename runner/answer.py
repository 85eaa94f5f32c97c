"""The answer to a command: the result in the form that callers process, and in the words that people read.

Pure. Owns both forms and what is said of recovering. Must not know: who ran the command, or where its work items are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from runner.codes import code_of
from runner.result import Outcome, Problem, Result
from runner.returns import own_fields

MANUAL = "Manual intervention is needed"
AGAIN = "Try again: it may succeed"


def processed(result: Result) -> dict[str, Any]:
    """A result as its caller processes it; fields of the agent's own are passed on."""
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
    """What to do about a result that is not whole: what it says itself, else whether trying again may help."""
    if result.next_steps:
        return list(result.next_steps)
    return [AGAIN if all(each.recoverable for each in result.errors) else MANUAL]


def answer_text(command: str, result: Result, notes: Sequence[str] = ()) -> str:
    """What people read of a command, such as `/implement 191`: how it ended, what there is, what to do next."""
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
    """Next steps and recommendations, and how to go on with what is not whole."""
    wise = list(dict.fromkeys(each.recommendation for each in result.errors if each.recommendation))
    said = [f"Recommendation: {each}" for each in wise]
    said += [f"Next step: {each}" for each in result.next_steps if each not in wise]
    if result.outcome is Outcome.PARTIAL:
        said.append(f"To resume: run {line}")
    elif result.outcome is not Outcome.COMPLETED:
        again = all(each.recoverable for each in result.errors) or bool(wise)
        said.append(f"Then retry: {line}" if again else MANUAL)
    return "\n".join(said)
