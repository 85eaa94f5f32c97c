"""The messages exchanged with a model: messages, tool definitions and tool calls, in the form of the Messages API.

Owns the encoding of a message (once, cached as bytes, so that a request costs the same at turn 200 as at turn 20) and the
cleaning of text before it is stored or sent. It knows no executions, databases or providers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, from_json, to_json

from runner.marks import restored

Block = dict[str, Any]
"""A content block of the Messages API: `{"type": "text", "text": …}`, `tool_use`, `tool_result` …"""

Role = Literal["user", "assistant"]

REMINDER, CORRECTION = "reminder", "correction"
"""Kinds of messages that reject an answer; the model answers again."""

FULL = "model_context_window_exceeded"
"""The stop reason of a reply that filled the context window."""

SHORTFALLS = {"max_tokens": "max_tokens", FULL: "context_window"}
"""Stop reasons of an incomplete reply, and their names in a result."""


def clean(text: str) -> str:
    """Text that every store and every API accepts: no NUL, no lone surrogate."""
    if text.isascii():  # a flag of the string: no scan, no copy
        return text.replace("\x00", "�")
    return text.replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")


def clean_data(value: Any) -> Any:
    """JSON data with every text cleaned, and null for each number that JSON cannot hold."""
    try:
        encoded = to_json(value)
    except PydanticSerializationError:
        value = from_json(clean(json.dumps(value, ensure_ascii=False, default=str)))
        encoded = to_json(value)
    return from_json(to_json(value, inf_nan_mode="null")) if b"Infinity" in encoded or b"NaN" in encoded else value


def is_json(value: Any) -> bool:
    """Whether each number is finite: `1e400` is parsed as infinity, and no reader of a row could parse `Infinity`."""
    try:
        json.dumps(value, allow_nan=False, default=str)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Delivered:
    """The end of a child, as delivered to its parent."""

    agent: str
    execution_id: str
    status: str
    outcome: str | None
    text: str
    tool_calls: int = 0
    unverified: Sequence[str] = ()
    """Cited ids that no call of the tree has."""


NO_DATA: Mapping[str, Any] = MappingProxyType({})


class Message:
    """One message of a transcript; immutable by convention, encoded at most once."""

    __slots__ = ("_calls", "_encoded", "content", "data", "delivered", "kind", "model", "role")

    def __init__(  # noqa: PLR0913 - its fields
        self,
        role: Role,
        content: Sequence[Block],
        kind: str = "",
        delivered: Sequence[Delivered] = (),
        model: str | None = None,
        data: Mapping[str, Any] = NO_DATA,
    ) -> None:
        self.role = role
        self.content = content
        self.kind = kind or ("reply" if role == "assistant" else "task")
        """`task`, `reply`, `results`, `delivery`, `conclude` …: its function in the conversation; never sent."""
        self.delivered = delivered
        """The ends of children that a `delivery` shows, as data."""
        self.model = model
        """The model that wrote it, if known: its thinking must not be sent to another model."""
        self.data = data
        """The meaning of our own message, for code that needs it later; never sent, and never parsed from its text."""
        self._encoded: bytes | None = None
        self._calls: Sequence[ToolCall] | None = None

    @classmethod
    def of_text(cls, role: Role, text: str, kind: str = "", data: Mapping[str, Any] = NO_DATA) -> Message:
        """A message of one text block."""
        return cls(role, [{"type": "text", "text": text}], kind, data=data)

    @property
    def encoded(self) -> bytes:
        """The JSON of this message, as sent."""
        if self._encoded is None:
            content = [_sendable(block) for block in self.content if block["type"] != "text" or block["text"].strip()]
            self._encoded = to_json({"role": self.role, "content": content})
        return self._encoded

    def forget(self) -> None:
        """Drop the encoded text, because a joined one holds it; it is made again when it is asked for."""
        self._encoded = None

    @property
    def words(self) -> str:
        """The text blocks, joined; thinking and tool blocks are not text."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def text(self) -> str:
        """Its words, stripped."""
        return self.words.strip()

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        """The tool calls of an assistant message, in order."""
        return self._calls if self._calls is not None else self.read_calls()

    def read_calls(self, stop_reason: str = "", row: Callable[[], str] = str) -> Sequence[ToolCall]:
        """Read its tool calls from its blocks; `row` gives each the id of its row.

        The last one is marked `cut` if the reply ended inside it.
        """
        calls = [ToolCall.of_block(block, row()) for block in self.content if block["type"] == "tool_use"]
        if stop_reason == "max_tokens" and calls and self.content[-1]["type"] == "tool_use":
            calls[-1] = replace(calls[-1], cut=True)
        self._calls = calls
        return calls


def encoded(messages: Iterable[Message]) -> list[bytes]:
    """The JSON of each message."""
    return [message._encoded or message.encoded for message in messages]


class Prefix:
    """The encoded earlier messages of a long conversation, as one text: each turn joins only the newest ones to it."""

    __slots__ = ("_data", "_known", "_model")

    def __init__(self) -> None:
        self._known: list[Message] = []
        self._data: list[bytes] = []
        """The joined text, as the only item; empty while there is none."""
        self._model = ""

    def joined(
        self, messages: Sequence[Message], model: str, encode: Callable[[Sequence[Message]], Iterable[bytes]]
    ) -> bytes:
        """The messages as `encode` writes them for a model, with commas between them."""
        known = len(self._known)
        if known and (self._model != model or self._known != list(messages[:known])):  # another model, or compacted
            self._known, self._data, known = [], [], 0
        if len(messages) - known >= 2 * NEWEST:
            older = messages[known : len(messages) - NEWEST]
            self._data, self._model = [b",".join([*self._data, *encode(older)])], model
            self._known += older
            for message in older:
                message.forget()
            known = len(self._known)
        return b",".join([*self._data, *encode(messages[known:])])


NEWEST = 16
"""Messages at the end of a conversation that are joined at every turn."""


def distinct(content: Iterable[Block], taken: set[str]) -> list[Block]:
    """The blocks, each call with a unique id; `taken` holds the ids used so far and is updated.

    Some servers repeat ids, within a reply and across replies, and the API rejects a conversation with a duplicate. Two
    identical calls with the same id are one call and are kept once.
    """
    blocks: list[Block] = []
    calls: list[Block] = []
    for block in content:
        kept = block
        if block["type"] == "tool_use":
            identifier = block["id"]
            if identifier in taken and block in calls:
                continue
            calls.append(block)
            while not identifier or identifier in taken:
                identifier = f"{block['id'] or 'call'}_{len(taken) + 1}"
            taken.add(identifier)
            kept = block if identifier == block["id"] else {**block, "id": identifier}
        blocks.append(kept)
    return blocks


def _sendable(block: Block) -> Block:
    """A block as the API accepts it: arguments that are no object are wrapped in one."""
    if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {"malformed": str(block.get("input"))}}
    return block


class Flight:
    """The progress of a call, to decide its outcome if it is cancelled, and its trace if it is observed."""

    __slots__ = ("protocol", "sent", "trace")

    def __init__(self) -> None:
        self.sent = False
        """Whether it may have taken effect."""
        self.trace: Mapping[str, str] | None = None
        """The trace context of its span, for the server that is called; None if it is not traced."""
        self.protocol: str | None = None
        """The version of MCP in which a traced call was sent."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by a model. `malformed` holds the raw text if its arguments were not a JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    malformed: str | None = None
    row: str = ""
    """The id of its row, once it has one."""
    cut: bool = False
    """Whether the reply ended inside it: its arguments are incomplete, so it never runs."""
    lost: bool = False
    """Whether it was in flight when its process died and must not run again: its outcome is unknown."""
    flight: Flight = field(default_factory=Flight, compare=False, repr=False)
    held: str = ""
    """The approval it needs after a restart: `gate` to run, `repeat` to run again."""

    @classmethod
    def of_block(cls, block: Block, row: str = "") -> ToolCall:
        """Read a `tool_use` block; arguments that are no object are kept as `malformed`, never guessed at.

        Text that the model copied from its prompt is unescaped for the tool.
        """
        arguments = block.get("input")
        if isinstance(arguments, dict):
            return cls(block["id"], block["name"], restored(arguments), row=row)
        return cls(block["id"], block["name"], {}, malformed=str(arguments), row=row)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a model sees it. `name` is sent; `label` is its name in config, rows and events (`server.tool`)."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    label: str
    server: str
    """Name of the upstream server, or `orchestrator` for Outrider's own tools."""
    effect: str = "at_most_once"
    """Whether a call may be repeated after a crash: read_only, idempotent, at_most_once or ask."""
    gate: str = "none"
    """Whether a call needs an approval: `none` or `ask`."""
    encoded: bytes = field(default=b"", compare=False, repr=False)

    def __post_init__(self) -> None:
        """Encode the definition once; a tool list is sent with every request."""
        wire = {"name": self.name, "description": self.description, "input_schema": dict(self.input_schema)}
        object.__setattr__(self, "encoded", to_json(wire))


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a tool call, for the model."""

    call: ToolCall
    text: str
    is_error: bool = False
    citable: bool = False
    """Whether a finding may cite it: then its text ends with the call's id, which APIs do not show to the model."""


def tool_results(answers: Iterable[Answer]) -> Message:
    """The user message that answers tool calls, in their order."""
    blocks: list[Block] = []
    for answer in answers:
        block: Block = {"type": "tool_result", "tool_use_id": answer.call.id, "content": answer.text}
        if answer.citable:
            mark = {"type": "text", "text": f"[call {answer.call.id}]"}
            block["content"] = [{"type": "text", "text": answer.text}, mark] if answer.text else [mark]
        if answer.is_error:
            block["is_error"] = True
        blocks.append(block)
    return Message("user", blocks, "results")


def size_of(messages: Iterable[Message]) -> int:
    """The bytes of the encoded messages."""
    return sum(map(len, encoded(messages)))


CARRY_ON = "Continue your task from where you stopped."
