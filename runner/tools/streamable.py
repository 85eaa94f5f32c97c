"""The streamable-HTTP transport: an mcp transport over an HTTP client that contains what goes wrong.

Owns: headers, time limits, redirects, and the translation of HTTP trouble into an answer to the one request it struck.
Must not know: sessions, tools, reconnecting.
Invariant: no failure of one request ends another one's; every request is answered, by the server or in its place; nothing
is sent to any host but the configured one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from pydantic_core import from_json, to_json

from runner.tools.answers import BodyStream, EventStream, Question, error_message
from runner.tools.incoming import CUT_OFF, LINE_CAP

_CONNECT_SECONDS = 10.0
_NOTIFICATION_SECONDS = 0.5
"""The transport posts notifications one by one; a server that does not take one must not hold up the rest."""

_MEANINGFUL = frozenset({httpx2.codes.BAD_REQUEST, httpx2.codes.NOT_FOUND})
"""Failures that have a meaning of their own in the protocol, where it asks who is there."""


class _ContainedClient(httpx2.AsyncClient):
    """A client whose requests are always answered: where the network or the server fails, by an error in its place."""

    def __init__(self, url: str, headers: Mapping[str, str], on_end: Callable[[str], None]) -> None:
        # Reading is bounded by the timeout of each call, which knows how long its tool may take.
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None, write=None, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        # A compressed answer is as long as it likes once it is unpacked, so none is asked for and none is taken.
        sent = {"accept-encoding": "identity", **headers}
        super().__init__(headers=sent, timeout=timeout, limits=limits, follow_redirects=False)
        self._url = httpx2.URL(url)
        self._on_end = on_end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if _says(request, "notifications/"):
            with anyio.move_on_after(_NOTIFICATION_SECONDS):
                return await self._contained(request, **options)
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        return await self._contained(request, **options)

    async def _contained(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            away = f"cannot be reached: {_words(error)}"
            self._on_end(away)
            return _refusal(request, away)
        except httpx2.TransportError as error:
            return _refusal(request, f"broke off: {_words(error)}", CUT_OFF)
        if response.status_code == httpx2.codes.NOT_FOUND and "mcp-session-id" in request.headers:
            self._on_end("has forgotten the session")
        reason = self._refused(request, response)
        if reason is not None:
            await response.aclose()
            return _refusal(request, reason)
        kind = response.headers.get("content-type", "").lower()
        if isinstance(response.stream, httpx2.AsyncByteStream):
            if kind.startswith("application/json"):
                response.stream = BodyStream(response.stream, _question(request))
            elif kind.startswith("text/event-stream"):
                response.stream = EventStream(response.stream, _question(request))
        return response

    def _refused(self, request: httpx2.Request, response: httpx2.Response) -> str | None:
        """Why an answer is not even looked into."""
        status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            return "sent a compressed answer, though it was asked not to"
        following = response.next_request
        if following is not None and (request.url != self._url or following.url == self._url):
            # The transport follows one within the origin, such as a slash at the end; more of them lead in circles.
            return "redirects in circles, which is not followed"
        if status < httpx2.codes.BAD_REQUEST or request.method != "POST":
            return None
        if status in _MEANINGFUL and not _says(request, "tools/"):
            return None
        if response.headers.get("content-type", "").lower().startswith("application/json"):
            return None
        return f"answered HTTP {status} {response.reason_phrase}".rstrip()


def _says(request: httpx2.Request, method: str) -> bool:
    """Whether a request carries a message of such a method."""
    return request.method == "POST" and f'"method":"{method}'.encode() in request.content[:1000]


def _question(request: httpx2.Request) -> Question:
    """What a request asks for; a stream that is merely opened asks for nothing."""
    if request.method != "POST":
        return Question(None, None)
    message = from_json(request.content)
    return Question(message.get("method"), message.get("id"))


def _refusal(request: httpx2.Request, reason: str, code: int = -32000) -> httpx2.Response:
    """An answer that makes the transport fail this request with these words."""
    body = error_message(None, f"the server {reason}", code)
    headers = {"content-type": "application/json"}
    return httpx2.Response(httpx2.codes.BAD_GATEWAY, request=request, headers=headers, content=to_json(body))


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
        _ContainedClient(url, headers, on_end) as client,
        # The events are capped before they come there, and an error in place of one is longer than nothing.
        streamable_http_client(url, http_client=client, max_sse_event_size=2 * LINE_CAP) as streams,
    ):
        yield streams
