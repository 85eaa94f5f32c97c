"""The recording of a tree: what a replay needs, as versioned, strictly read data.

Owns the format and its reading. Must not know: rows, or how a tree is run. Invariants: the same tree gives the same text;
what is read is complete and consistent, or is refused with the name of the field.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, to_json

from db.ids import PATTERN
from runner.errors import RunnerError

VERSION = 1
REPLIES = ("reply", "refusal", "overflow", "summary")
"""The kinds of messages that came from a model."""
MOST_PROBLEMS = 3
_SURROGATE = re.compile(r"[\ud800-\udfff]")

Identifier = Field(min_length=1, max_length=200)


class BadRecording(RunnerError):
    """A recording that cannot be read."""


class RecordedPart(BaseModel):
    """A part of a recording: strict, without undeclared fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class RecordedDecision(RecordedPart):
    """The answer of a person to the question whether a call may run."""

    kind: str
    decision: str | None
    decided_by: str | None
    reason: str | None


class RecordedCall(RecordedPart):
    """One tool call of a reply, with its result as the tool gave it."""

    id: str = Identifier
    call_id: str
    tool: str
    server: str
    arguments: str
    effect: str
    status: str
    is_error: bool
    error_type: str | None
    result: str | None
    """As its model was shown it; None where there was no result."""
    whole: str | None
    """The uncut text, where the result is another."""
    digest: str
    """Of both."""
    started_at: str
    finished_at: str | None
    execution_id: str | None
    """The execution that it started."""
    approvals: tuple[RecordedDecision, ...]


class RecordedReply(RecordedPart):
    """What a model call answered besides its content, and what it used."""

    model: str
    stop_reason: str | None
    request_id: str | None
    rehearsed: bool
    pricing: str
    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    cache_read_tokens: int = Field(ge=0)
    cache_write_tokens: int = Field(ge=0)
    cache_write_1h_tokens: int = Field(ge=0)
    cost_usd: float = Field(ge=0)
    started_at: str
    finished_at: str


class RecordedMessage(RecordedPart):
    """One message of a transcript."""

    id: str = Identifier
    role: Literal["user", "assistant"]
    kind: str
    content: list[dict[str, Any]]
    data: dict[str, Any] | None
    digest: str
    """Of its content."""
    created_at: str
    reply: RecordedReply | None
    calls: tuple[RecordedCall, ...]


class RecordedDelivery(RecordedPart):
    """An item of an inbox."""

    id: str = Identifier
    kind: str
    child_execution_id: str | None
    payload: dict[str, Any] | None
    created_at: str
    consumed_by: str | None
    """The message or tool call that showed it."""


class RecordedPlace(RecordedPart):
    """Where an execution stands in its tree."""

    id: str
    parent_execution_id: str | None
    position: int
    agent: str
    role: str
    strategy: str
    stage: str | None
    step_id: str | None
    depends_on: str | None
    tool_call_id: str | None
    path: str
    depth: int


class RecordedOrder(RecordedPart):
    """What an execution was started with."""

    task: str | None
    input: Any
    model: str | None
    timeout_seconds: float | None
    budget_usd: float | None
    budget_tokens: int | None
    budget_from_execution_id: str | None
    config_hash: str | None
    user_id: str | None
    principal: str | None
    session_id: str | None
    idempotency_key: str | None
    continues_execution_id: str | None


class RecordedLife(RecordedPart):
    """When an execution was started and stopped."""

    attempt: int
    tool_call_count: int = Field(ge=0)
    created_at: str
    started_at: str | None
    finished_at: str | None
    seconds: float | None = Field(ge=0)
    """From its spawn to its end, as its end was told."""
    cancelled_by: str | None
    cancel_reason: str | None
    cancel_requested_at: str | None
    retries: tuple[str, ...]
    """The error of each failed attempt before the last one."""


class RecordedExecution(RecordedPlace, RecordedOrder, RecordedLife):
    """One execution: its order, its transcript and its end."""

    status: str
    outcome: str | None
    reason: str | None
    result: dict[str, Any] | None
    error_type: str | None
    error: str | None
    messages: tuple[RecordedMessage, ...]
    calls: tuple[RecordedCall, ...]
    """Calls that no model made: questions about steps of a plan."""
    deliveries: tuple[RecordedDelivery, ...]

    @property
    def name(self) -> str:
        """The configured name of its agent or chain."""
        return self.path.rpartition("/")[2]

    @property
    def all_calls(self) -> Iterator[RecordedCall]:
        """Its tool calls, in order."""
        for message in self.messages:
            yield from message.calls
        yield from self.calls

    @cached_property
    def replies(self) -> Sequence[RecordedMessage]:
        """The messages that came from its model."""
        return [message for message in self.messages if message.kind in REPLIES]


class Recording(RecordedPart):
    """A recorded tree."""

    format: Literal["outrider-recording"]
    version: Literal[1]
    root: str
    configurations: dict[str, dict[str, Any]]
    """Stored configurations by hash, secrets by reference or masked."""
    executions: tuple[RecordedExecution, ...] = Field(min_length=1)

    @cached_property
    def by_id(self) -> Mapping[str, RecordedExecution]:
        """Its executions by id."""
        return {each.id: each for each in self.executions}

    @cached_property
    def children(self) -> Mapping[str | None, Sequence[RecordedExecution]]:
        """Its executions by parent, in the order of their spawns."""
        found: dict[str | None, list[RecordedExecution]] = {}
        for each in sorted(self.executions, key=lambda each: (each.position, each.id)):
            found.setdefault(each.parent_execution_id, []).append(each)
        return found

    @property
    def top(self) -> RecordedExecution:
        """Its root."""
        return self.by_id[self.root]

    def below(self, top: str) -> Iterator[RecordedExecution]:
        """An execution and everything below it, parents first."""
        yield self.by_id[top]
        for child in self.children.get(top, ()):
            yield from self.below(child.id)


def digest(value: Any) -> str:
    """A short digest of a text, or of the JSON of a value."""
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else to_json(value)
    return hashlib.sha256(data).hexdigest()[:32]


def read_recording(value: Any) -> Recording:
    """Read and check a recording; raises BadRecording, naming the field."""
    if not isinstance(value, dict):
        raise BadRecording("the recording is not a JSON object", "export the tree again")
    version = value.get("version")
    if value.get("format") == "outrider-recording" and isinstance(version, int) and version > VERSION:
        raise BadRecording(f"the recording has version {version}, this Outrider reads {VERSION}", "update Outrider")
    try:
        found = Recording.model_validate_json(to_json(value))
    except (ValidationError, ValueError, RecursionError) as error:
        raise BadRecording(f"the recording is broken: {_told(error, value)}", "export the tree again") from error
    for problem in _faults(found):
        raise BadRecording(f"the recording is broken: {problem}", "export the tree again")
    return found


def _told(error: Exception, value: Any) -> str:
    if not isinstance(error, ValidationError):
        place = next(_surrogates(value), None) if not isinstance(error, RecursionError) else None
        return f"{place} has half of a character (a lone surrogate)" if place is not None else "it is nested too deeply"
    problems = error.errors(include_url=False)
    shown = [f"`{field_of(each['loc'])}`: {_problem(each)}" for each in problems[:MOST_PROBLEMS]]
    more = [f"and {len(problems) - MOST_PROBLEMS} more"] if len(problems) > MOST_PROBLEMS else []
    return "; ".join([*shown, *more])


def _problem(found: ErrorDetails) -> str:
    if found["type"] == "too_short":
        return "it is empty"
    return found["msg"][:1].lower() + found["msg"][1:]


def _surrogates(value: Any) -> Iterator[str]:
    """The fields whose texts no other program could read."""
    open_: list[tuple[tuple[int | str, ...], Any]] = [((), value)]
    while open_:
        place, part = open_.pop()
        if isinstance(part, dict):
            open_ += [((*place, name), each) for name, each in part.items()]
            yield from (f"a name in `{field_of(place)}`" for name in part if _SURROGATE.search(name))
        elif isinstance(part, list):
            open_ += [((*place, at), each) for at, each in enumerate(part)]
        elif isinstance(part, str) and _SURROGATE.search(part):
            yield f"`{field_of(place)}`"


def field_of(place: Sequence[int | str]) -> str:
    """The name of a field, as `executions[2].messages[0].role`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200] or "recording"


_BLOCKS: Mapping[str, Mapping[str, type]] = {"text": {"text": str}, "tool_use": {"id": str, "name": str, "input": dict}}
"""The fields of blocks that a replay reads."""


def _is_block(block: Mapping[str, Any]) -> bool:
    kind = block.get("type")
    fields = _BLOCKS.get(kind, {}) if isinstance(kind, str) else None
    return fields is not None and all(isinstance(block.get(name), of) for name, of in fields.items())


def _faults_inside(each: RecordedExecution, where: str) -> Iterator[str]:
    problems = (each.result or {}).get("errors") or []
    if not isinstance(problems, list) or not all(isinstance(problem, dict) for problem in problems):
        yield f"{where}.result.errors` is not a list of errors"
    for at, message in enumerate(each.messages):
        for place, block in enumerate(message.content):
            if not _is_block(block):
                yield f"{where}.messages[{at}].content[{place}]` is not a block of a message"
        if (message.kind in REPLIES) != (message.reply is not None):
            yield f"{where}.messages[{at}].reply` does not go with the kind `{message.kind[:40]}`"


def _faults(found: Recording) -> Iterator[str]:
    """What is wrong across fields."""
    seen: set[str] = set()
    for number, each in enumerate(found.executions):
        where = f"`executions[{number}]"
        if not PATTERN.fullmatch(each.id):
            yield f"{where}.id` is not an id"
        if each.id in seen:
            yield f"{where}.id` repeats `{each.id}`"
        parent = each.parent_execution_id
        if (parent is None) != (each.id == found.root) or (parent is not None and parent not in seen):
            yield f"{where}.parent_execution_id` names no execution before it"
        if each.finished_at is None:
            yield f"{where}.finished_at` is missing: only an ended tree is replayed"
        if each.config_hash not in found.configurations:
            yield f"{where}.config_hash` names no configuration of the recording"
        yield from _faults_inside(each, where)
        seen.add(each.id)
    if found.root not in seen:
        yield "`root` names no execution"
