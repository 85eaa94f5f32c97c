"""The reader of a streamed answer: bytes of server-sent events become one message of the Messages API.

Owns the event format. Knows no client, no retry and no error text for people.
Invariant: a returned message is complete and well formed; a stream that ends early, reports an error or cannot be parsed
raises StreamError.

Unknown blocks and deltas are kept, never refused, because every block must be sent back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Callable
from typing import Any

from pydantic_core import from_json, to_json

from runner.llm.timeouts import AttemptTimer
from runner.messages import clean, is_json

LINE_CAP = 16 * 1024 * 1024
"""Bytes of one event: an endless line must not fill the memory, nor block the event loop while it is parsed."""
ANSWER_CAP = 32 * 1024 * 1024
"""Bytes of one answer: more than the longest answer of any model, sent a token at a time."""

_TEXT_FIELD = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
"""Deltas that are parts of one long text; they are collected and joined once."""

_NEEDED = {"text": ("text",), "thinking": ("thinking",), "tool_use": ("id", "name")}
"""The text fields that later code relies on, by type of block."""


class StreamError(Exception):
    """A stream that failed after the headers.

    `type` is the provider's error type, or ours: `incomplete`, `unreadable`, `oversized`; `said` is the provider's message.
    """

    def __init__(self, type: str, said: str = "") -> None:  # noqa: A002 - the name of the field on the wire
        super().__init__(type)
        self.type = type
        self.said = said
        self.request_id: str | None = None
        """Set by the reader of the headers."""


async def collect(
    chunks: AsyncIterable[bytes], on_text: Callable[[str], object], timer: AttemptTimer | None = None
) -> dict[str, Any]:
    """The message of a stream; each piece of text is passed to `on_text` as it arrives."""
    message, lines = _Message(), _Lines()
    async for chunk in chunks:
        for line in lines.feed(chunk):
            if not line.startswith(b"data:"):
                continue  # the JSON has its type: the other lines add nothing
            try:
                piece = message.take(_json(line[5:]))
            except (LookupError, TypeError, AttributeError) as error:
                raise StreamError("unreadable") from error
            if piece:
                on_text(piece)
            if message.complete:
                return message.fields
        if timer is not None and message.begun:
            timer.received()
    raise StreamError("incomplete")


class _Lines:
    """Lines from bytes, cut anywhere. A line without end is kept in pieces: joining at each chunk would be quadratic."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._held = 0
        self._seen = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines completed by this chunk."""
        *lines, rest = chunk.split(b"\n")
        if lines:
            if self._rest:
                lines[0] = b"".join((*self._rest, lines[0]))
            self._rest, self._held = [], 0
        if rest:
            self._rest.append(rest)
            self._held += len(rest)
        self._seen += len(chunk)
        if self._held > LINE_CAP or self._seen > ANSWER_CAP:
            raise StreamError("oversized")
        return lines


class _Message:
    """A message under construction."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {"content": [], "usage": {}}
        self.begun = False
        self.complete = False
        self._open = False
        self._parts: list[str] = []

    def take(self, event: Any) -> str:
        """Add one event, and return its piece of text."""
        match event["type"]:
            case "content_block_delta":
                return self._add(event["delta"])
            case "content_block_start":
                self._finish_block()
                self.fields["content"].append(dict(event["content_block"]))
                self.begun = self._open = True
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
                error = event["error"]
                raise StreamError(str(error["type"]), str(error.get("message") or ""))
            case "message_stop":
                self._finish_block()
                _check(self.fields["content"])
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
        """Join the pieces of the open block; some servers never say that a block is over."""
        if not self._open:
            return
        block, text = self.fields["content"][-1], "".join(self._parts)
        if block["type"] in ("text", "thinking"):
            block[block["type"]] = block.get(block["type"], "") + text
        elif text:
            # Arguments that are not JSON stay text: the call gets an error, nothing is guessed.
            block["input"] = _json_or_text(text)
        self._parts, self._open = [], False


def _check(content: list[Any]) -> None:
    """Raise TypeError or KeyError unless the blocks have the fields of their types."""
    for block in content:
        for name in ("type", *_NEEDED.get(block["type"], ())):
            if not isinstance(block[name], str):
                raise TypeError(name)


def _json(data: bytes) -> Any:
    try:
        return from_json(data)
    except ValueError:
        pass
    try:
        # The fast parser rejects half a surrogate pair, which some servers send; `clean` handles it later.
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StreamError("unreadable") from error


def _json_or_text(text: str) -> Any:
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    # `1e400` is parsed as infinity, also where that is not allowed.
    return text if b"Infinity" in to_json(value) and not is_json(value) else value
