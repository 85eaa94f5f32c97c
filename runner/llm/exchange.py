"""One attempt: the body of a request is built and sent, a whole reply comes back.

Owns the fields of a request and its cache marks, the connection, and the conversion of a message to a Reply. Knows neither
retries nor other models. Invariants: every exit closes the connection or returns it to the pool; for the model that wrote
it, history is never encoded twice.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from pydantic_core import to_json

from registry import ModelSpec
from runner.llm.endpoint import ERROR_CAP, Endpoint, transport_errors
from runner.llm.protocol import OnText, Reply, Request, Usage
from runner.llm.stream import StreamError, collect
from runner.llm.timeouts import AttemptTimer
from runner.messages import Message, Prefix, encoded

DRAIN_SECONDS = 0.2
_WORD = re.compile(r"[a-z0-9_]{1,40}")

_LIFETIMES = {
    "5m": b',"cache_control":{"type":"ephemeral"}',
    "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}',
    "off": b"",
}
_THINKING = b'"thinking":{"type":"adaptive","display":"summarized"}'
_THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})


def request_body(request: Request, spec: ModelSpec) -> bytes:
    """The JSON of a request for the model of `spec`."""
    cached = _LIFETIMES[spec.cache_writes(waits=request.waits)]
    longest = spec.max_tokens if request.max_tokens is None else min(spec.max_tokens, request.max_tokens)
    fields = [b'"model":' + to_json(spec.model), b'"max_tokens":%d' % longest, b'"stream":true' + cached]
    if spec.thinking:
        fields.append(_THINKING)  # no provider combines thinking with a temperature
    elif request.steady and spec.accepts_temperature:
        fields.append(b'"temperature":0')
    if request.system:
        text = _json_text(request.system)
        # Siblings differ in their tasks alone: with its own mark they share all before them.
        fields.append(b'"system":' + (b'[{"type":"text","text":%b%b}]' % (text, cached) if cached else text))
    if request.shown:
        *tools, last = (tool.encoded for tool in request.shown)
        # Tools come first in the prompt and rarely change: their own mark keeps them cached when the rest changes.
        fields.append(b'"tools":[' + b",".join([*tools, last[:-1] + cached + b"}"]) + b"]")
        if not request.tools:
            fields.append(b'"tool_choice":{"type":"none"}')
    prefix, encode = request.prefix or Prefix(), partial(_encoded, meant_for=request.spec, spec=spec)
    fields.append(b'"messages":[' + prefix.joined(request.messages, spec.model, encode) + b"]")
    return b"{" + b",".join(fields) + b"}"


@lru_cache(maxsize=64)
def _json_text(system: str) -> bytes:
    """A system prompt as JSON; cached, because it goes out with every turn of every agent of one kind."""
    return to_json(system)


def _encoded(messages: Sequence[Message], meant_for: ModelSpec, spec: ModelSpec) -> Iterable[bytes]:
    """The messages as bytes. Thinking blocks are bound to the model that wrote them: no other model gets them."""
    if meant_for.model == spec.model and {message.model for message in messages} <= {None, spec.model}:
        return encoded(messages)
    return _without_thinking(messages, meant_for, spec)


def _without_thinking(messages: Iterable[Message], meant_for: ModelSpec, spec: ModelSpec) -> Iterator[bytes]:
    for message in messages:
        author = message.model or meant_for.model
        if author == spec.model or message.role == "user":
            yield message.encoded
        else:
            spoken = [block for block in message.content if block["type"] not in _THINKING_BLOCKS]
            if len(spoken) == len(message.content):
                yield message.encoded
            elif spoken:
                yield Message("assistant", spoken).encoded


async def exchange(endpoint: Endpoint, body: bytes, spec: ModelSpec, on_text: OnText) -> Reply:
    """Send `body` and read the answer. Raises the errors of endpoint, transport and reader, and AnswerTimeout."""
    timer = AttemptTimer(spec.timeouts)
    reply: Reply | None = None
    with timer.scope:  # one scope for all timeouts: cheaper than a timer per read
        response = await endpoint.post(body)
        chunks, request_id = response.aiter_bytes(), response.headers.get("request-id")
        try:
            if "text/html" in response.headers.get("content-type", ""):
                # from a proxy that answers in place of the provider
                raise StreamError("unreadable", await _page(chunks))
            reply = _reply(await collect(chunks, on_text, timer), spec, request_id)
            if not response.ended:
                # A connection is reused only if its answer was read to the end, a few bytes after the last event.
                timer.only(DRAIN_SECONDS)
                with contextlib.suppress(*transport_errors()):
                    async for _ in chunks:
                        continue
        except StreamError as error:
            error.request_id = request_id
            raise
        finally:
            await response.aclose()
    if reply is None:
        raise timer.lapsed()
    return reply


async def _page(chunks: AsyncIterable[bytes]) -> str:
    data = b""
    async for chunk in chunks:
        data += chunk
        if len(data) > ERROR_CAP:
            break
    return data.decode(errors="replace")


def _reply(message: Mapping[str, Any], spec: ModelSpec, request_id: str | None) -> Reply:
    reason = message.get("stop_reason") or "end_turn"
    return Reply(
        content=message["content"],
        stop_reason=reason if isinstance(reason, str) and _WORD.fullmatch(reason) else "unknown",
        usage=_usage(message.get("usage")),
        model=spec.model,
        request_id=request_id,
    )


def _usage(counted: Any) -> Usage:
    """The provider's token counts; invalid ones count as 0."""

    def count(of: Any, name: str) -> int:
        number = of.get(name) if isinstance(of, dict) else None
        return number if isinstance(number, int) and 0 <= number < 2**53 else 0

    of_lifetimes = counted.get("cache_creation") if isinstance(counted, dict) else None
    written = count(counted, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count(counted, "input_tokens"),
        output_tokens=count(counted, "output_tokens"),
        cache_read_tokens=count(counted, "cache_read_input_tokens"),
        cache_write_tokens=written,
        cache_write_1h_tokens=min(written, count(of_lifetimes, "ephemeral_1h_input_tokens")),
    )
