"""The standard return: the form of answers of agents with `returns: standard`, and its validation.

Pure, except that it checks whether named artifacts exist. Owns the fields and the messages about invalid ones. Invariant: a
valid return gives a `Result` whose `output` is the full return, so reading it again gives the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from registry import AgentSpec
from runner.errors import SessionMismatchError, ValidationError
from runner.result import OWN_WORDS, SUMMARY_LIMIT, Outcome, Problem, Result, failed

REQUIRED = ("status", "summary", "artifacts", "metadata")
FIELDS = frozenset((*REQUIRED, "errors", "next_steps"))
"""The fields with a meaning; any other is the agent's own and is passed through."""
ARTIFACT_TYPES = ("research", "plan", "implementation", "summary", "documentation")

Folders = Mapping[str, Path]
"""Folders of artifacts by name. A path begins with such a name, or is relative to any of them."""


def read_return(value: Any, session: str, folders: Folders | None = None) -> Result:
    """The result of a return; raises ValidationError. Artifacts must exist in `folders`, if given."""
    if not isinstance(value, Mapping):
        raise ValidationError("The return must be a JSON object")
    for name in REQUIRED:
        if name not in value:
            raise ValidationError(f"Missing required field: {name}")
    outcome = _outcome(value["status"])
    _check_session(value["metadata"], session)
    summary = _summary(value["summary"])
    artifacts = tuple(_artifact(each, folders) for each in _items(value["artifacts"], "artifact"))
    errors = tuple(_problem(each) for each in _items(value.get("errors") or [], "error"))
    if outcome is Outcome.COMPLETED and errors:
        raise ValidationError(f"Errors must be empty for status: {outcome.value}")
    if outcome is not Outcome.COMPLETED and not errors:
        raise ValidationError(f"Errors cannot be empty for status: {outcome.value}")
    reason = errors[0].type if errors else None
    steps = _next_steps(value.get("next_steps"))
    return Result(outcome, summary, dict(value), reason, artifacts, errors, steps, {OWN_WORDS: True} if errors else {})


def invalid_return(error: Exception, original: Any) -> Problem:
    """The problem of an invalid return, with the original value."""
    context = {"validation_error": str(error), "original": original}
    advice = "fix the sub-agent: it must answer with a standard return"
    message = f"Return validation failed: {error}"
    return Problem("validation_failed", message, None, "high", recoverable=False, recommendation=advice, context=context)


def folders_of(agent: AgentSpec) -> Folders | None:
    """The folders of an agent's artifacts: its workspaces, if it has any."""
    return {each.name: each.path for each in agent.workspaces} or None


def kept(value: Any, session: str, folders: Folders | None) -> Result:
    """The result of a program's return, or a failure if it is invalid."""
    try:
        return read_return(value, session, folders)
    except ValidationError as error:
        return failed(invalid_return(error, value))


def own_fields(result: Result) -> dict[str, Any]:
    """The agent's own fields of a return, such as `task_number`."""
    output = result.output
    if not isinstance(output, Mapping) or any(name not in output for name in REQUIRED):
        return {}
    return {name: value for name, value in output.items() if name not in FIELDS}


def _outcome(status: Any) -> Outcome:
    try:
        return Outcome(status)
    except ValueError:
        raise ValidationError(f"Invalid status: {status}") from None


def _check_session(metadata: Any, expected: str) -> None:
    if not isinstance(metadata, Mapping) or "session_id" not in metadata:
        raise ValidationError("Missing session_id in metadata")
    if metadata["session_id"] != expected:
        raise SessionMismatchError(expected, str(metadata["session_id"]))


def _summary(summary: Any) -> str:
    if not isinstance(summary, str) or not summary.strip():
        raise ValidationError("Summary cannot be empty")
    if len(summary) > SUMMARY_LIMIT:
        raise ValidationError(f"Summary too long (max {SUMMARY_LIMIT} chars)")
    return summary


def _items(values: Any, what: str) -> Iterable[Mapping[str, Any]]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ValidationError(f"Invalid {what} format")
    for each in values:
        if not isinstance(each, Mapping):
            raise ValidationError(f"Invalid {what} format")
        yield each


def _artifact(artifact: Mapping[str, Any], folders: Folders | None) -> Mapping[str, Any]:
    kind, path = artifact.get("type"), artifact.get("path")
    if not isinstance(kind, str) or not isinstance(path, str) or not path.strip():
        raise ValidationError("Invalid artifact format")
    if kind not in ARTIFACT_TYPES:
        raise ValidationError(f"Invalid artifact type: {kind}")
    if leaves(path):
        raise ValidationError(f"Artifact path must be relative and stay inside: {path}")
    if folders is not None and not any(_is_in(folder, rest) for folder, rest in _places(path, folders)):
        raise ValidationError(f"Artifact not found: {path}")
    return dict(artifact)


def leaves(path: str) -> bool:
    """Whether a path escapes the folder it is relative to, on this or another operating system."""
    return (
        "\0" in path
        or PurePosixPath(path).is_absolute()
        or bool(PureWindowsPath(path).anchor)
        or ".." in PureWindowsPath(path).parts
    )


def _places(path: str, folders: Folders) -> Iterable[tuple[Path, str]]:
    name, _, rest = path.partition("/")
    if rest and name in folders:
        yield folders[name], rest
    for folder in folders.values():
        yield folder, path


def _is_in(folder: Path, path: str) -> bool:
    """Whether the path exists and, with links resolved, lies in the folder."""
    try:
        return (folder / path).resolve(strict=True).is_relative_to(folder.resolve(strict=True))
    except (OSError, ValueError):
        return False


def _problem(error: Mapping[str, Any]) -> Problem:
    kind, message = error.get("type"), error.get("message")
    if not isinstance(kind, str) or not isinstance(message, str):
        raise ValidationError("Invalid error format")
    context = error.get("context")
    return Problem(
        type=kind,
        message=message,
        code=_text(error.get("code")),
        severity=_text(error.get("severity")) or "high",
        recoverable=error.get("recoverable") is not False,
        recommendation=_text(error.get("recommendation")),
        context=dict(context) if isinstance(context, Mapping) else {},
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _next_steps(steps: Any) -> tuple[str, ...]:
    """One, several or none."""
    if steps is None or steps == "":
        return ()
    return (steps,) if isinstance(steps, str) else tuple(str(each) for each in _sequence(steps))


def _sequence(steps: Any) -> Sequence[Any]:
    if not isinstance(steps, Sequence):
        raise ValidationError("Invalid next_steps format")
    return steps
