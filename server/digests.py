"""The digests of a bundle: which of its parts were changed since it was exported, and where.

Owns the digests, and the comparison of the answers of the views with the recording: both hold the same results, replies and
arguments. Must not know: how a file is read, or how a tree is replayed. Invariant: every change outside the recorded
configurations is found; in a file without digests, every change of a value that both hold.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from registry.specs.secrets import MASK
from runner.record.facts import shown
from runner.replay.comparison import ReplayDifference, around, line_of, text_of
from runner.replay.recording import RecordedCall, RecordedExecution, RecordedMessage, RecordedReply, Recording, digest
from runner.strategies.loop.rebuild import LOST

RECORDING, DIGESTS = "recording", "digests"
TREE = "tree"
BY_EXECUTION = ("executions", "transcripts", "timelines")

_NODE = (
    *("parent_execution_id", "position", "agent", "role", "strategy", "stage", "step_id", "tool_call_id", "status"),
    *("outcome", "reason", "error", "error_type", "attempt", "continues_execution_id", "model", "created_at", "started_at"),
    *("finished_at", "tool_call_count", "budget_usd", "budget_tokens"),
)
_DETAIL = ("principal", "cancelled_by", "cancel_reason", "timeout_seconds", "input")
_PROBLEM = ("type", "message", "code", "severity", "recommendation")
_MESSAGE = ("role", "kind", "created_at")
_CALL = ("call_id", "tool", "server", "effect", "status", "is_error", "error_type", "started_at", "finished_at")
_REPLY = ("model", "stop_reason", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")


@dataclass(frozen=True, slots=True)
class Alteration:
    """A value that is not the one that was exported."""

    difference: ReplayDifference
    in_recording: bool
    """It was changed in the recording."""
    placed: bool = True
    """Whether its place is known, because another part has it as it was exported."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A value of the recording that another part shows, too."""

    part: str
    what: str
    recorded: Any
    shown: Any
    at: str
    turn: int | None = None
    call: RecordedCall | None = None
    intact: bool = True
    """Whether the recorded value has its own digest."""

    @property
    def differs(self) -> bool:
        """Whether they differ; what is masked in one of them cannot be compared."""
        if self.recorded == self.shown:
            return False
        return MASK not in str(self.shown)


def digests_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The digests of a bundle with its recording: of each execution in each part, and of what belongs to none."""
    executions = content[RECORDING]["executions"]
    nodes = _nodes(content)
    parts = {each["id"]: _parts(content, nodes, each) for each in executions}
    return {TREE: _digest(_rest(content)), "executions": {each: _digests(of) for each, of in parts.items()}}


def alterations(content: Mapping[str, Any], recording: Recording) -> list[Alteration]:
    """What was changed in a bundle since it was exported, in the order of the recording."""
    digests = _object(content.get(DIGESTS))
    nodes, found = _nodes(content), list[Alteration]()
    for each, stored in zip(recording.executions, content[RECORDING]["executions"], strict=True):
        known = _object(_object(digests.get("executions")).get(each.id))
        found += _of_execution(each, _parts(content, nodes, stored), known)
    if TREE in digests and digests[TREE] != (now := _digest(_rest(content))):
        pair = _Pair(TREE, f"`{TREE}` is not as it was exported", *_told(digests[TREE], now), recording.top.created_at)
        found.append(Alteration(_difference(recording.top, pair, pair.what), in_recording=False, placed=False))
    return sorted(found, key=lambda each: each.difference.at)


def told(differences: Sequence[ReplayDifference], altered: Sequence[Alteration]) -> list[ReplayDifference]:
    """What was changed in a recording, the differences of its replay, which may follow from that, and other changes.

    What several of them found is told once.
    """
    found = [each.difference for each in altered if each.in_recording and each.placed]
    there = {_place(each) for each in found}
    found += [each for each in differences if _place(each) not in there]
    executions = {each.execution_id for each in found}
    for each in altered:
        if not each.in_recording or (not each.placed and each.difference.execution_id not in executions):
            found.append(each.difference)
    return found


def _place(found: ReplayDifference) -> tuple[Any, ...]:
    return found.execution_id, found.turn, found.call_id, found.what


# -- what has a digest -------------------------------------------------------------------------------------------------


def _nodes(content: Mapping[str, Any]) -> dict[str, Any]:
    return {str(each.get("id")): each for each in _objects(_object(content.get(TREE)).get("nodes"))}


def _parts(content: Mapping[str, Any], nodes: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """What a bundle holds about one execution, by part."""
    identifier = recorded["id"]
    by_execution = {part: _object(content.get(part)).get(identifier) for part in BY_EXECUTION}
    return {RECORDING: recorded, TREE: nodes.get(identifier), **by_execution}


def _rest(content: Mapping[str, Any]) -> dict[str, Any]:
    """What belongs to no single execution."""
    tree = {name: value for name, value in _object(content.get(TREE)).items() if name != "nodes"}
    names = {part: sorted(_object(content.get(part))) for part in BY_EXECUTION}
    return {"id": content.get("id"), "written_at": content.get("written_at"), TREE: tree, "names": names}


def _digests(parts: Mapping[str, Any]) -> dict[str, str]:
    return {part: _digest(value) for part, value in parts.items()}


def _digest(value: Any) -> str:
    """A short digest of a JSON value; the order of keys does not count."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# -- where it was changed ----------------------------------------------------------------------------------------------


def _of_execution(recorded: RecordedExecution, parts: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[Alteration]:
    now = _digests(parts) if known else {}
    changed = {part for part, value in now.items() if known.get(part) != value}
    if known and not changed:
        return
    explained = set[str]()
    pairs = [*_of_node(recorded, parts), *_of_transcript(recorded, parts["transcripts"])]
    pairs += _of_timeline(recorded, parts["timelines"]) if "timelines" in changed else []
    for pair in pairs:
        if not pair.differs or (known and changed.isdisjoint((RECORDING, pair.part))):
            continue
        in_recording = not pair.intact or (RECORDING in changed and pair.part not in changed)
        explained.add(RECORDING if in_recording else pair.part)
        if in_recording:
            turned = replace(pair, recorded=pair.shown, shown=pair.recorded)
            yield Alteration(_difference(recorded, turned, pair.what), in_recording)
        else:
            yield Alteration(_difference(recorded, pair, f"{pair.what} in `{pair.part}`"), in_recording)
    for part in sorted(changed - explained):
        pair = _Pair(part, f"`{part}` is not as it was exported", *_told(known.get(part), now[part]), recorded.created_at)
        yield Alteration(_difference(recorded, pair, pair.what), part == RECORDING, placed=False)


def _told(expected: Any, got: str) -> tuple[str, str]:
    return f"digest {expected}", f"digest {got}"


def _difference(execution: RecordedExecution, pair: _Pair, what: str) -> ReplayDifference:
    call, values = pair.call, around(pair.recorded, pair.shown)
    found = ReplayDifference(pair.at, execution.id, execution.agent, what, *values, pair.turn)
    return replace(found, call_id=call.call_id, tool=call.tool) if call is not None else found


def _of_node(recorded: RecordedExecution, parts: Mapping[str, Any]) -> Iterator[_Pair]:
    """Its place, its order and its end."""
    detail, at = _object(parts["executions"]), recorded.created_at
    for name in _NODE:
        for part, node in (("executions", _object(detail.get("node"))), (TREE, _object(parts[TREE]))):
            if name in node:
                yield _Pair(part, f"its `{name}`", getattr(recorded, name), node[name], at)
    for name in _DETAIL:
        if name in detail:
            yield _Pair("executions", f"its `{name}`", getattr(recorded, name), detail[name], at)
    if "task" in detail:
        yield _Pair("executions", "its `task`", recorded.task or "", detail["task"], at)
    result, end = recorded.result or {}, recorded.finished_at or at
    for name, value in _object(detail.get("result")).items():
        before = result.get(name)
        if name == "errors":
            before = [{each: problem.get(each) for each in _PROBLEM} for problem in before or ()]
        yield _Pair("executions", f"the `{name}` of its result", before, value, end)


def _of_transcript(recorded: RecordedExecution, part: Any) -> Iterator[_Pair]:
    """Its messages, replies and calls."""
    page, turn = _object(part), 0
    messages = {str(each.get("id")): each for each in _objects(page.get("messages"))}
    asked = iter([each for each in _objects(page.get("model_calls")) if each.get("pricing") != LOST])
    for message in recorded.messages:
        turn += message.reply is not None
        there = messages.get(message.id)
        if there is not None:
            yield from _of_message(message, there, turn)
        if message.reply is not None and (model_call := next(asked, None)) is not None:
            yield from _of_reply(message.reply, model_call, message.created_at, turn)


def _of_message(message: RecordedMessage, there: Mapping[str, Any], turn: int) -> Iterator[_Pair]:
    what = "a reply of its model" if message.reply is not None else f"a message to its model (`{message.kind}`)"
    at = message.created_at
    for name in _MESSAGE:
        if name in there:
            yield _Pair("transcripts", f"the `{name}` of {what}", getattr(message, name), there[name], at, turn)
    values = text_of(message.content), text_of(_objects(there.get("content")))
    yield _Pair("transcripts", what, *values, at, turn, intact=message.digest == digest(message.content))
    shown_calls = {str(each.get("id")): each for each in _objects(there.get("calls"))}
    for call in message.calls:
        if (each := shown_calls.get(call.id)) is not None:
            yield from _of_call(call, each, turn)


def _of_reply(reply: RecordedReply, there: Mapping[str, Any], at: str, turn: int) -> Iterator[_Pair]:
    for name in _REPLY:
        if name in there:
            yield _Pair("transcripts", f"the `{name}` of a reply", getattr(reply, name), there[name], at, turn)


def _of_call(call: RecordedCall, there: Mapping[str, Any], turn: int) -> Iterator[_Pair]:
    at = call.finished_at or call.started_at
    for name in _CALL:
        if name in there:
            yield _Pair("transcripts", f"its `{name}`", getattr(call, name), there[name], at, turn, call)
    if _parsed(call.arguments) != there.get("arguments"):
        changed = there.get("arguments")
        text = changed if isinstance(changed, str) else line_of(changed)
        yield _Pair("transcripts", "its `arguments`", call.arguments, text, at, turn, call)
    whole = call.whole if call.whole is not None else call.result
    intact = call.digest == digest([call.result, call.whole])
    yield _Pair("transcripts", "its result", whole, there.get("result"), at, turn, call, intact)


def _of_timeline(recorded: RecordedExecution, part: Any) -> Iterator[_Pair]:
    """The texts of its events."""
    calls = {call.id: call for call in recorded.all_calls}
    replies = [_joined(each) for each in recorded.replies]
    for event in _objects(_object(part).get("events")):
        told, at = _object(event.get("payload")), str(event.get("at"))
        call = calls.get(str(told.get("id")))
        if call is not None and "arguments" in told:
            yield _Pair("timelines", "its `arguments`", shown(call.arguments), told["arguments"], at, call=call)
        text, turn = told.get("text"), told.get("turn")
        if isinstance(text, str) and isinstance(turn, int) and text not in {shown(each) for each in replies}:
            reply = replies[turn - 1] if 0 < turn <= len(replies) else None
            yield _Pair("timelines", "a reply of its model", shown(reply) if reply is not None else None, text, at, turn)


def _joined(message: RecordedMessage) -> str:
    return "\n".join(block["text"] for block in message.content if block.get("type") == "text").strip()


def _parsed(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return text


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
