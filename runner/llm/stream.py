"""The reader of a streamed answer: bytes of server-sent events become one message of the Messages API.

Owns the event format. Knows no client, no retry and no error text for people.
Invariant: what is returned is complete; a stream that ends early, reports an error or cannot be read raises StreamError.

A stream may hold blocks and deltas that did not exist when this was written; they are carried along, never refused, because
every block must be sent back as it came.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from contextlib import aclosing
from typing import Any

from pydantic_core import from_json

from runner.transcript import clean

LINE_CAP = 64 * 1024 * 1024
"""Bytes of one event; a peer that never ends its line must not fill the memory."""

_TEXT_FIELD = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""Deltas that are pieces of one long text; they are collected and joined once."""


class StreamError(Exception):
    """A stream that broke after the headers had promised an answer.

    `type` is the provider's error type, or ours: `incomplete`, `unreadable`, `oversized`.
    """

    def __init__(self, type: str) -> None:  # noqa: A002 - the name of the field on the wire
        super().__init__(type)
        self.type = type


async def events(chunks: AsyncIterable[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    """The events of a stream, however its bytes are cut. Their JSON names their type: other lines are skipped."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_CAP:
            raise StreamError("oversized")
        for line in lines:
            if line.startswith(b"data:"):
                event = _json(line[5:])
                if isinstance(event, dict):
                    yield event


async def collect(chunks: AsyncIterable[bytes], on_text: Callable[[str], object]) -> dict[str, Any]:
    """The message a stream carries; each piece of its text is handed to `on_text` when it arrives."""
    message = _Message()
    async with aclosing(events(chunks)) as found:
        async for event in found:
            try:
                piece = message.take(event)
            except (LookupError, TypeError, AttributeError) as error:
                raise StreamError("unreadable") from error
            if piece:
                on_text(piece)
            if message.complete:
                return message.fields
    raise StreamError("incomplete")


class _Message:
    """A message under construction."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {"content": [], "usage": {}}
        self.complete = False
        self._parts: list[str] = []

    def take(self, event: dict[str, Any]) -> str:
        """Add one event, and return the piece of text it brought."""
        match event.get("type"):
            case "content_block_delta":
                return self._add(event["delta"])
            case "content_block_start":
                self.fields["content"].append(dict(event["content_block"]))
                self._parts = []
            case "content_block_stop":
                self._finish_block()
            case "message_start":
                self.fields |= event["message"]
                self.fields["content"] = list(self.fields["content"])
            case "message_delta":
                self.fields |= event["delta"]
                counted = {key: count for key, count in (event.get("usage") or {}).items() if count is not None}
                self.fields["usage"] = {**(self.fields["usage"] or {}), **counted}
            case "error":
                raise StreamError(str(event["error"]["type"]))
            case "message_stop":
                self.complete = True
        return ""

    def _add(self, delta: dict[str, Any]) -> str:
        block = self.fields["content"][-1]
        kind = delta["type"]
        if field := _TEXT_FIELD.get(kind):
            piece = clean(delta[field])
            self._parts.append(piece)
            return piece if kind == "text_delta" else ""
        if kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        else:
            block |= {key: item for key, item in delta.items() if key != "type"}
        return ""

    def _finish_block(self) -> None:
        block, text = self.fields["content"][-1], "".join(self._parts)
        if block["type"] in ("text", "thinking"):
            block[block["type"]] = block.get(block["type"], "") + text
        elif text:
            # Arguments that are no JSON stay the text they are: the call is answered with an error, never guessed at.
            block["input"] = _json_or_text(text)


def _json(data: bytes) -> Any:
    try:
        return from_json(data)
    except ValueError:
        pass
    try:
        # The fast parser refuses half a surrogate pair, which some servers send; `clean` takes care of it later.
        return json.loads(data)
    except ValueError as error:
        raise StreamError("unreadable") from error


def _json_or_text(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return text
