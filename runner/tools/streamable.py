"""The streamable-HTTP transport: an mcp transport over an HTTP client that contains what goes wrong.

Owns: headers, time limits, size caps, and the translation of HTTP trouble into an answer to the one request it struck.
Must not know: sessions, tools, reconnecting.
Invariant: no failure of one request ends another one's, and no answer is gathered beyond the cap.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2

BODY_CAP = 10_000_000
"""Longest answer, as one JSON body or one event of a stream."""

_CONNECT_SECONDS = 10.0
_NOTIFICATION_SECONDS = 0.5
"""The transport posts notifications one by one; a server that does not take one must not hold up the rest."""

_CONNECTION_CLOSED = -32000


class _Capped(httpx2.AsyncByteStream):
    """A JSON body that ends in an error which the transport answers for its request alone."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > BODY_CAP:
                    raise httpx2.StreamError(f"the answer is longer than {BODY_CAP // 1_000_000} MB")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the answer broke off: {_words(error)}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


class _ContainedClient(httpx2.AsyncClient):
    """A client whose requests are always answered: where the network or the server fails, by an error in its place."""

    def __init__(self, headers: Mapping[str, str], on_end: Callable[[str], None]) -> None:
        # Reading is bounded by the timeout of each call, which knows how long its tool may take.
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None, write=None, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        super().__init__(headers=dict(headers), timeout=timeout, limits=limits, follow_redirects=False)
        self._on_end = on_end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if _is_notification(request):
            with anyio.move_on_after(_NOTIFICATION_SECONDS):
                return await self._contained(request, **options)
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        return await self._contained(request, **options)

    async def _contained(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            reason = f"cannot be reached: {_words(error)}"
            self._on_end(reason)
            return _refusal(request, reason)
        except httpx2.TransportError as error:
            return _refusal(request, f"broke off: {_words(error)}")
        if response.status_code == httpx2.codes.NOT_FOUND and "mcp-session-id" in request.headers:
            self._on_end("has forgotten the session")
        is_json = response.headers.get("content-type", "").lower().startswith("application/json")
        if is_json and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Capped(response.stream)
        elif _is_server_error(response) and request.method == "POST":
            await response.aclose()
            return _refusal(request, f"answered HTTP {response.status_code} {response.reason_phrase}".rstrip())
        return response


def _is_notification(request: httpx2.Request) -> bool:
    """Whether nobody waits for an answer."""
    return request.method == "POST" and b'"method":"notifications/' in request.content[:1000]


def _is_server_error(response: httpx2.Response) -> bool:
    """Whether the status says all there is to say; a 400 or 404 has a meaning of its own in the protocol."""
    known = {httpx2.codes.BAD_REQUEST, httpx2.codes.NOT_FOUND}
    return response.status_code >= httpx2.codes.BAD_REQUEST and response.status_code not in known


def _refusal(request: httpx2.Request, reason: str) -> httpx2.Response:
    """An answer that makes the transport fail this request with these words."""
    error = {"code": _CONNECTION_CLOSED, "message": f"the server {reason}"}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(httpx2.codes.BAD_GATEWAY, request=request, json=body)


def _words(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], on_end: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the two streams an mcp `Client` takes; `on_end` hears when the connection is of no more use.

    The mcp transport follows redirects within the origin of the address only, so headers never leave it.
    """
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _ContainedClient(headers, on_end) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=BODY_CAP) as streams,
    ):
        yield streams
