"""Content of spans: messages, arguments and results in the form of the conventions, with every secret masked.

Owns that form: a list of messages, each with a role and parts. Must not know: spans. Invariant: no text leaves here that
the mask has not seen. Content is opt-in, by `telemetry.content`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from runner.messages import Block, Message

Part = dict[str, Any]


class SpanContent:
    """Turns content into the values of attributes."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask

    def text(self, text: str) -> str:
        """A text, masked."""
        return self._mask(text)

    def data(self, value: Any) -> str:
        """JSON data, masked."""
        return self._mask(value if isinstance(value, str) else _json(value))

    def instructions(self, system: str) -> str:
        """The system prompt."""
        return self.data([{"type": "text", "content": system}])

    def messages(self, messages: Iterable[Message], finish_reason: str | None = None) -> str:
        """The messages of a conversation, or the one that answers it, with its `finish_reason`."""
        told = [{"role": _role_of(message), "parts": [_part(block) for block in message.content]} for message in messages]
        if finish_reason is not None:
            told = [{**message, "finish_reason": finish_reason} for message in told]
        return self.data(told)


def _role_of(message: Message) -> str:
    return "tool" if message.kind == "results" else message.role


def _part(block: Block) -> Part:
    match block["type"]:
        case "text":
            return {"type": "text", "content": block["text"]}
        case "thinking":
            return {"type": "reasoning", "content": block.get("thinking", "")}
        case "tool_use":
            return {"type": "tool_call", "id": block["id"], "name": block["name"], "arguments": block.get("input")}
        case "tool_result":
            return {"type": "tool_call_response", "id": block["tool_use_id"], "response": block.get("content")}
    return {"type": block["type"]}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
