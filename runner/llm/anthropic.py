"""The model behind the Anthropic API, or behind any endpoint that speaks it.

Owns the clients, the request body and the order in which a model and its fallbacks are asked. The SDK is imported at
the first call and not before: it costs more than a second. Invariant: history is never encoded again, and a key is read
from the environment when it is used and kept nowhere else than in the client that sends it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from pydantic_core import to_json

from registry import ModelSpec
from runner.llm.failures import failure_of, missing_key
from runner.llm.protocol import ModelError, OnText, Reply, Request, Usage
from runner.llm.retrying import Retrying
from runner.llm.stream import collect
from runner.transcript import Message

if TYPE_CHECKING:
    import anthropic

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 120.0
"""How long a model may say nothing, before its first word or between two; the API sends signs of life far more often."""
DRAIN_SECONDS = 0.2
KEEP_ALIVE_SECONDS = 60.0
"""Tools often take longer than the five seconds after which the SDK would close a connection and need a new handshake."""

_CACHED = b'"cache_control":{"type":"ephemeral"}'
_THINKING = b'"thinking":{"type":"adaptive","display":"summarized"}'
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


class AnthropicModel:
    """A `Model` that asks the API; `models` are the specs that fallbacks are looked up in."""

    def __init__(
        self, models: Mapping[str, ModelSpec], retrying: Retrying | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._models = models
        self._retrying = retrying or Retrying()
        self._environ = environ
        self._clients: dict[tuple[str | None, str], anthropic.AsyncAnthropic] = {}

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Ask the model of the request and, if it cannot answer now, its fallbacks in turn."""
        numbers = itertools.count(1)
        try:
            return await self._ask(request, request.spec, on_text, numbers)
        except ModelError as error:
            if not (error.recoverable and request.spec.fallback):
                raise
            failed = error
        for name in request.spec.fallback:
            with contextlib.suppress(ModelError):
                return await self._ask(request, self._models[name], on_text, numbers)
        names = ", ".join(f"`{name}`" for name in request.spec.fallback)
        raise ModelError(failed.kind, f"{failed}; {names} failed, too", failed.hint, recoverable=True) from failed

    async def close(self) -> None:
        """Close every connection."""
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()

    async def _ask(self, request: Request, spec: ModelSpec, on_text: OnText, numbers: Iterator[int]) -> Reply:
        client = await self._client(spec)
        body = request_body(request, spec)

        async def attempt() -> Reply:
            number = next(numbers)
            if request.on_attempt is not None:
                request.on_attempt(spec.name, number)
            return replace(await _exchange(client, body, spec, on_text), attempts=number)

        return await self._retrying.ask(attempt, functools.partial(failure_of, spec=spec))

    async def _client(self, spec: ModelSpec) -> anthropic.AsyncAnthropic:
        key = self._environ.get(spec.api_key_env)
        if not key:
            raise missing_key(spec)
        place = spec.base_url or self._environ.get("ANTHROPIC_BASE_URL") or None, spec.api_key_env
        if place not in self._clients:
            # The import takes over a second: in a thread, so that the agents already at work do not stand still.
            make = await anyio.to_thread.run_sync(_import_client)
            if place not in self._clients:
                self._clients[place] = make(place[0], key)
        client = self._clients[place]
        client.api_key = key
        return client


def request_body(request: Request, spec: ModelSpec) -> bytes:
    """The JSON of a request for the model of `spec`, joined from parts that were encoded before."""
    fields = [b'"model":' + to_json(spec.model), b'"max_tokens":%d' % spec.max_tokens, b'"stream":true', _CACHED]
    if spec.thinking:
        fields.append(_THINKING)
    if request.system:
        fields.append(b'"system":' + to_json(request.system))
    if request.tools:
        *tools, last = (tool.encoded for tool in request.tools)
        # Tools come first in the prompt and rarely change: their own mark keeps them cached when the rest is not.
        fields.append(b'"tools":[' + b",".join([*tools, last[:-1] + b"," + _CACHED + b"}"]) + b"]")
    fields.append(b'"messages":[' + b",".join(_encoded(request.messages, request.spec, spec)) + b"]")
    return b"{" + b",".join(fields) + b"}"


def _encoded(messages: Iterable[Message], meant_for: ModelSpec, spec: ModelSpec) -> Iterator[bytes]:
    """The messages as bytes; thoughts are bound to the model that had them, so another model must not get them."""
    for message in messages:
        author = message.model or meant_for.model
        if author == spec.model or message.role == "user":
            yield message.encoded
        else:
            spoken = [block for block in message.content if block["type"] not in _THOUGHTS]
            if len(spoken) == len(message.content):
                yield message.encoded
            elif spoken:
                yield Message("assistant", spoken).encoded


async def _exchange(client: anthropic.AsyncAnthropic, body: bytes, spec: ModelSpec, on_text: OnText) -> Reply:
    """One attempt over the wire. Leaving it, for whatever reason, closes the connection or gives it back."""
    import httpx2

    timeout = httpx2.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS, pool=None)
    response = await client.post(
        "/v1/messages",
        content=body,
        cast_to=httpx2.Response,
        stream=True,
        options={"timeout": timeout, "max_retries": 0},
    )
    async with contextlib.aclosing(response):
        chunks = response.aiter_bytes()
        message = await collect(chunks, on_text)
        # A connection is used again only if its answer was read to the end, which is a few bytes after the last event.
        with contextlib.suppress(httpx2.HTTPError), anyio.move_on_after(DRAIN_SECONDS):
            async for _ in chunks:
                continue
    counted = message.get("usage") or {}
    return Reply(
        content=message["content"],
        stop_reason=message.get("stop_reason") or "end_turn",
        usage=Usage(
            input_tokens=counted.get("input_tokens") or 0,
            output_tokens=counted.get("output_tokens") or 0,
            cache_read_tokens=counted.get("cache_read_input_tokens") or 0,
            cache_write_tokens=counted.get("cache_creation_input_tokens") or 0,
        ),
        model=spec.model,
        request_id=response.headers.get("request-id"),
    )


def _import_client() -> Callable[[str | None, str], anthropic.AsyncAnthropic]:
    """Import the SDK; what is returned makes a client and must be called where the event loop runs."""
    import anthropic
    import httpx2

    def make(base_url: str | None, key: str) -> anthropic.AsyncAnthropic:
        # For this transport 0 is no limit: how many agents may talk at once is not decided here.
        limits = httpx2.Limits(max_connections=0, keepalive_expiry=KEEP_ALIVE_SECONDS)
        transport = anthropic.DefaultAioHttpClient(limits=limits)
        return anthropic.AsyncAnthropic(api_key=key, base_url=base_url, http_client=transport, max_retries=0)

    return make
