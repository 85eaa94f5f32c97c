"""One attempt: a body is sent, a whole reply comes back.

Owns the request, its connection, and the conversion of a message to a Reply. Knows neither retries nor other models.
Invariant: every exit closes the connection or returns it to the pool.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterable, Mapping
from typing import Any

from registry import ModelSpec
from runner.llm.endpoint import ERROR_CAP, Endpoint
from runner.llm.protocol import OnText, Reply, Usage
from runner.llm.stream import StreamError, collect
from runner.llm.timeouts import AttemptTimer

DRAIN_SECONDS = 0.2
_WORD = re.compile(r"[a-z0-9_]{1,40}")


async def exchange(endpoint: Endpoint, body: bytes, spec: ModelSpec, on_text: OnText) -> Reply:
    """Send `body` and read the answer. Raises the errors of SDK, transport and reader, and AnswerTimeout."""
    import httpx2

    timer = AttemptTimer(spec.timeouts)
    reply: Reply | None = None
    with timer.scope:  # one scope for all timeouts: cheaper than a timer per read
        response = await endpoint.post(body)
        async with contextlib.aclosing(response):
            chunks, request_id = response.aiter_bytes(), response.headers.get("request-id")
            try:
                if "text/html" in response.headers.get("content-type", ""):
                    raise StreamError(
                        "unreadable", await _page(chunks)
                    )  # from a proxy that answers in place of the provider
                message = await collect(chunks, on_text, timer)
            except StreamError as error:
                error.request_id = request_id
                raise
            reply = _reply(message, spec, request_id)
            # A connection is reused only if its answer was read to the end, a few bytes after the last event.
            timer.only(DRAIN_SECONDS)
            with contextlib.suppress(httpx2.HTTPError):
                async for _ in chunks:
                    continue
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
        number = of.get(name) if isinstance(of, Mapping) else None
        return number if isinstance(number, int) and 0 <= number < 2**53 else 0

    of_lifetimes = counted.get("cache_creation") if isinstance(counted, Mapping) else None
    written = count(counted, "cache_creation_input_tokens")
    return Usage(
        input_tokens=count(counted, "input_tokens"),
        output_tokens=count(counted, "output_tokens"),
        cache_read_tokens=count(counted, "cache_read_input_tokens"),
        cache_write_tokens=written,
        cache_write_1h_tokens=min(written, count(of_lifetimes, "ephemeral_1h_input_tokens")),
    )
