"""The words exchanged with a model: messages, tool definitions and tool calls, in the shape the Messages API uses.

Owns the encoding of a message (once, kept as bytes, so that a request costs the same at turn 200 as at turn 20) and the
cleaning of text before it is stored or sent. Knows nothing of executions, databases or providers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, from_json, to_json

from runner.marks import restored

Block = dict[str, Any]
"""One content block as the Messages API writes it: `{"type": "text", "text": …}`, `tool_use`, `tool_result` …"""

Role = Literal["user", "assistant"]

REMINDER, CORRECTION = "reminder", "correction"
"""Kinds of messages that point out what an answer lacks; what follows is another answer."""

FULL = "model_context_window_exceeded"
"""The stop reason of a reply for which there was no room left."""

SHORTFALLS = {"max_tokens": "max_tokens", FULL: "context_window"}
"""Stop reasons of a reply that is not whole, and what that is called in a result."""


def clean(text: str) -> str:
    """Text that every store and every API accepts: no NUL, no lone surrogate."""
    if text.isascii():  # known without looking, and a long one is not copied
        return text.replace("\x00", "�")
    return text.replace("\x00", "�").encode("utf-8", "replace").decode("utf-8")


def clean_data(value: Any) -> Any:
    """JSON data in which every text is clean."""
    try:
        to_json(value)
    except PydanticSerializationError:
        return from_json(clean(json.dumps(value, ensure_ascii=False, default=str)))
    return value


@dataclass(frozen=True, slots=True)
class Delivered:
    """How a child ended, as its parent is told."""

    agent: str
    execution_id: str
    status: str
    outcome: str | None
    text: str
    tool_calls: int = 0
    unverified: Sequence[str] = ()
    """What it cites that is no call of the tree."""


NO_DATA: Mapping[str, Any] = MappingProxyType({})


class Message:
    """One message of a transcript; immutable by convention, encoded at most once."""

    __slots__ = ("_encoded", "content", "data", "delivered", "kind", "model", "role")

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
        """`task`, `reply`, `results`, `delivery`, `conclude` …: what it is in the conversation, never sent."""
        self.delivered = delivered
        """The ends of children that a `delivery` shows, as data."""
        self.model = model
        """Which model said it, if that is known: its thinking must not be sent to another."""
        self.data = data
        """What a message of ours says, where code has to know that again; never sent, and never read out of its text."""
        self._encoded: bytes | None = None

    @classmethod
    def of_text(cls, role: Role, text: str, kind: str = "", data: Mapping[str, Any] = NO_DATA) -> Message:
        """A message of one text block."""
        return cls(role, [{"type": "text", "text": text}], kind, data=data)

    @property
    def encoded(self) -> bytes:
        """The JSON of this message, as it goes over the wire."""
        if self._encoded is None:
            content = [_sendable(block) for block in self.content if block["type"] != "text" or block["text"].strip()]
            self._encoded = to_json({"role": self.role, "content": content})
        return self._encoded

    @property
    def words(self) -> str:
        """The text blocks, joined; thinking and tool blocks are not text."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def text(self) -> str:
        """Its words, without the space around them."""
        return self.words.strip()

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of an assistant message, in order."""
        return [ToolCall.of_block(block) for block in self.content if block["type"] == "tool_use"]

    def calls(self, stop_reason: str) -> list[ToolCall]:
        """Its tool calls; the last one is marked where the reply ended in the middle of it."""
        calls = self.tool_calls
        if stop_reason == "max_tokens" and calls and self.content[-1]["type"] == "tool_use":
            calls[-1] = replace(calls[-1], cut=True)
        return calls


def distinct(content: Iterable[Block], taken: set[str]) -> list[Block]:
    """The blocks, each call with an id of its own; `taken` are the ids used so far, and is added to.

    Servers repeat ids, within a reply and across them, and the API refuses a conversation in which one occurs twice. A call
    that is there twice, id and all, is one call and is kept once.
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
    """A block as the API accepts it: arguments that were no object are wrapped in one, so that they can be sent again."""
    if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
        return {**block, "input": {"malformed": str(block.get("input"))}}
    return block


class Flight:
    """How far a call has come, for whoever has to say what became of it when it is stopped."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = False
        """Whether it may have taken effect."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool. `malformed` holds the raw text when its arguments were not a JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    malformed: str | None = None
    row: str = ""
    """The id of its row, once it has one."""
    cut: bool = False
    """Whether the reply ended in the middle of it: then nobody knows what it was to be, and it is never carried out."""
    lost: bool = False
    """Whether it had begun when its process went, and must not begin again: nobody knows what it did."""
    flight: Flight = field(default_factory=Flight, compare=False, repr=False)
    held: str = ""
    """What a person is to say since its process went: `gate`, whether it may run; `repeat`, whether it may run again."""

    @classmethod
    def of_block(cls, block: Block) -> ToolCall:
        """Read a `tool_use` block; arguments that are no object are kept as `malformed`, never guessed at.

        What a model copied from what it was shown is given to a tool as it was.
        """
        arguments = block.get("input")
        if isinstance(arguments, dict):
            return cls(block["id"], block["name"], restored(arguments))
        return cls(block["id"], block["name"], {}, malformed=str(arguments))


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as a model sees it. `name` is what is sent; `label` is how config, rows and events call it (`server.tool`)."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    label: str
    server: str
    """Name of the upstream server, or `orchestrator` for Outrider's own tools."""
    effect: str = "at_most_once"
    """What a crash may do with a call that had started: read_only, idempotent, at_most_once or ask."""
    gate: str = "none"
    """Who allows a call: nobody need (`none`), or a person must (`ask`)."""
    encoded: bytes = field(default=b"", compare=False, repr=False)

    def __post_init__(self) -> None:
        """Encode the definition once; a tool list is sent with every request."""
        wire = {"name": self.name, "description": self.description, "input_schema": dict(self.input_schema)}
        object.__setattr__(self, "encoded", to_json(wire))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool call got back."""

    call: ToolCall
    text: str
    is_error: bool = False
    citable: bool = False
    """Whether a finding may rest on it: then the model is told the id of the call, which no API shows it."""


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
    """The bytes of messages, as they are sent."""
    return sum(len(message.encoded) for message in messages)


CARRY_ON = "Continue your task from where you stopped."
