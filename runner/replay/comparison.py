"""What happened against what was recorded: the first difference, in the order of the recording.

Owns what counts as a difference. Times, ids of rows and states in the answers of dispatch tools differ from run to run and
do not count. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic_core import from_json

from runner.replay.recording import RecordedCall, RecordedExecution, RecordedMessage, Recording, digest
from runner.tools.builtin import SERVER
from runner.tools.dispatch import LIST as LIST_AGENTS
from runner.tools.dispatch import NAMES

STEADY = ("execution_id", "type", "message", "hint")
"""The fields of a dispatch tool's answer that do not depend on time."""

ORDERED = ("parent_execution_id", "agent", "role", "strategy", "stage", "step_id", "depends_on", "task", "input", "model")
RESULT_FIELDS = ("outcome", "reason", "summary", "output", "artifacts", "next_steps", "signals")
PROBLEM_FIELDS = ("type", "code", "message", "severity", "recoverable")

SHOWN = 160
"""Characters around a difference."""


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """One difference."""

    at: str
    """The recorded time, for the order."""
    execution_id: str
    agent: str
    what: str
    """What differs, in words."""
    expected: Any
    got: Any
    turn: int | None = None
    call_id: str | None = None
    tool: str | None = None

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        return {name: value for name, value in asdict(self).items() if name != "at"}


def differences(recorded: Recording, happened: Recording) -> Iterator[ReplayDifference]:
    """All differences, in the order of the recording."""
    found = [each for expected in recorded.executions for each in _execution(expected, happened)]
    for each in happened.executions:
        if each.id not in recorded.by_id:
            at = recorded.top.finished_at or ""
            found.append(ReplayDifference(at, each.id, each.agent, "it was not recorded", None, each.task))
    yield from sorted(found, key=lambda each: each.at)


def _execution(expected: RecordedExecution, happened: Recording) -> Iterator[ReplayDifference]:
    got = happened.by_id.get(expected.id)
    if got is None:
        yield ReplayDifference(expected.created_at, expected.id, expected.agent, "it was not started", expected.task, None)
        return
    for name in ORDERED:
        if getattr(expected, name) != getattr(got, name):
            yield _difference(expected, expected.created_at, f"its `{name}`", getattr(expected, name), getattr(got, name))
    if got.error is not None and expected.error is None:  # the cause of what is missing comes first
        yield _difference(expected, _stopped_at(expected, got), "its `error`", None, got.error)
    yield from _messages(expected, got)
    yield from _calls(expected, expected.calls, got.calls, None)
    told = () if expected.error is None else ("error",)
    for name in ("status", "error_type", *told):
        if getattr(expected, name) != getattr(got, name):
            yield _difference(
                expected, expected.finished_at or "", f"its `{name}`", getattr(expected, name), getattr(got, name)
            )
    yield from _result(expected, got)


def _stopped_at(expected: RecordedExecution, got: RecordedExecution) -> str:
    """The recorded time from which on its messages are missing."""
    missing = expected.messages[len(got.messages) :]
    return missing[0].created_at if missing else expected.finished_at or ""


def _messages(expected: RecordedExecution, got: RecordedExecution) -> Iterator[ReplayDifference]:
    turn = 0
    for number, message in enumerate(expected.messages):
        turn += message.reply is not None
        if number >= len(got.messages):
            what = f"message {number + 1} (`{message.kind}`) is missing"
            yield _difference(expected, message.created_at, what, text_of(message.content), None, turn)
            return
        yield from _message(expected, message, got.messages[number], turn)
    for extra in got.messages[len(expected.messages) :]:
        what = f"a message (`{extra.kind}`) was not recorded"
        yield _difference(expected, expected.finished_at or "", what, None, text_of(extra.content), turn)


def _message(
    execution: RecordedExecution, expected: RecordedMessage, got: RecordedMessage, turn: int
) -> Iterator[ReplayDifference]:
    if (expected.role, expected.kind) != (got.role, got.kind):
        yield _difference(execution, expected.created_at, "the kind of a message", expected.kind, got.kind, turn)
    elif expected.digest != digest(got.content) or expected.content != got.content:
        what = "a reply of its model" if expected.reply is not None else f"a message to its model (`{expected.kind}`)"
        changed = expected.content == got.content  # then the text of the recording itself was changed
        before = f"digest {expected.digest}" if changed else text_of(expected.content)
        yield _difference(execution, expected.created_at, what, before, text_of(got.content), turn)
    if expected.reply is not None and got.reply is not None:
        for name in ("model", "stop_reason", "rehearsed", "pricing", "input_tokens", "output_tokens"):
            before, now = getattr(expected.reply, name), getattr(got.reply, name)
            if before != now:
                yield _difference(execution, expected.created_at, f"the `{name}` of a reply", before, now, turn)
    yield from _calls(execution, expected.calls, got.calls, turn)


def _calls(
    execution: RecordedExecution, expected: Sequence[RecordedCall], got: Sequence[RecordedCall], turn: int | None
) -> Iterator[ReplayDifference]:
    there = {call.call_id: call for call in got}
    for call in expected:
        at, now = call.finished_at or call.started_at, there.pop(call.call_id, None)
        if now is None:
            yield _of_call(execution, call, at, turn, "it was not made", call.arguments, None)
            continue
        found = [
            _of_call(execution, call, at, turn, f"its `{name}`", before, after)
            for name in ("tool", "server", "arguments", "status", "is_error", "error_type")
            if (before := getattr(call, name)) != (after := getattr(now, name))
            and not (name == "status" and call.finished_at is None)
        ]
        if not _same_result(call, now):
            result = _of_call(execution, call, at, turn, "its result", *_results(call, now))
            found.insert(0 if now.is_error and not call.is_error else len(found), result)  # an error says why
        yield from found
    for call in there.values():
        at = execution.finished_at or ""
        yield _of_call(execution, call, at, turn, "it was not recorded", None, call.arguments)


def _results(expected: RecordedCall, got: RecordedCall) -> tuple[str | None, str | None]:
    """Two results that differ; where the text of the recording itself was changed, its original is not there."""
    if expected.digest == digest([expected.result, expected.whole]):
        short = expected.result != got.result
        return (expected.result, got.result) if short else (expected.whole, got.whole)
    if expected.whole is not None and expected.result is not None:  # the one was cut from the other
        return expected.whole, expected.result
    return f"digest {expected.digest}", got.result


def _same_result(expected: RecordedCall, got: RecordedCall) -> bool:
    if expected.digest == digest([got.result, got.whole]):
        return True
    if (
        expected.server != SERVER
        or expected.tool not in NAMES
        or expected.digest != digest([expected.result, expected.whole])
    ):
        return False
    return expected.tool == LIST_AGENTS or _steady(expected.result) == _steady(got.result)


def _steady(result: str | None) -> Any:
    try:
        value = from_json(result or "")
    except ValueError:
        return result
    return {name: value.get(name) for name in STEADY} if isinstance(value, dict) else value


def _result(expected: RecordedExecution, got: RecordedExecution) -> Iterator[ReplayDifference]:
    if expected.result is None and expected.status == "cancelled":
        return  # a row that another writer closed has no result
    at, before, after = expected.finished_at or "", expected.result or {}, got.result or {}
    for name in RESULT_FIELDS:
        if before.get(name) != after.get(name):
            yield _difference(expected, at, f"the `{name}` of its result", before.get(name), after.get(name))
    problems = [
        [{name: each.get(name) for name in PROBLEM_FIELDS} for each in one.get("errors") or ()] for one in (before, after)
    ]
    if problems[0] != problems[1]:
        yield _difference(expected, at, "the `errors` of its result", problems[0], problems[1])


def _difference(  # noqa: PLR0913 - one difference, with its place
    execution: RecordedExecution, at: str, what: str, expected: Any, got: Any, turn: int | None = None
) -> ReplayDifference:
    return ReplayDifference(at, execution.id, execution.agent, what, *around(expected, got), turn=turn)


def _of_call(  # noqa: PLR0913 - one difference, with its place
    execution: RecordedExecution, call: RecordedCall, at: str, turn: int | None, what: str, expected: Any, got: Any
) -> ReplayDifference:
    before, after = around(expected, got)
    return ReplayDifference(at, execution.id, execution.agent, what, before, after, turn, call.call_id, call.tool)


def around(expected: Any, got: Any) -> tuple[Any, Any]:
    """Both values; of long ones the part of their text around the first difference."""
    values = expected, got
    expected, got = (each if isinstance(each, str) else line_of(each) for each in values)
    if max(len(expected), len(got)) <= SHOWN:
        return values
    if values[0] is None or values[1] is None:
        return (None, _part(got, 0)) if values[0] is None else (_part(expected, 0), None)
    if expected.startswith("digest "):
        return expected, got[:SHOWN] + "…" * (len(got) > SHOWN)
    first = next((at for at, pair in enumerate(zip(expected, got, strict=False)) if pair[0] != pair[1]), None)
    first = min(len(expected), len(got)) if first is None else first
    start = max(0, first - SHOWN // 4)
    return _part(expected, start), _part(got, start)


def _part(text: str, start: int) -> str:
    end = start + SHOWN
    return "…" * (start > 0) + text[start:end] + "…" * (end < len(text))


def text_of(content: Sequence[Mapping[str, Any]]) -> str:
    """The blocks of a message as one text."""
    texts = [str(block.get("text")) for block in content if block.get("type") == "text"]
    calls = [block for block in content if block.get("type") != "text"]
    return "\n".join([*texts, *map(line_of, calls)])


def line_of(value: Any) -> str:
    """A JSON value as one line, also one with texts that are not valid Unicode."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
