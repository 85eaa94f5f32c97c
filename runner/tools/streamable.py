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
from runner.tools.incoming import CUT_OFF, LINE_CAP, REFUSED

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
        self._url = httpx2.URL(url)
        # Reading the certificates takes 20 ms; a plain address needs none, and no redirect leads from it to another kind.
        verify = self._url.scheme == "https"
        super().__init__(headers=sent, timeout=timeout, limits=limits, follow_redirects=False, verify=verify)
        self._on_end = on_end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        await request.aread()  # a redirected one has its message still to be read
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
        if response.next_request is not None and not self._may_follow(request, response.next_request):
            return "redirects elsewhere, which is not followed"
        if request.method != "POST" or (status in _MEANINGFUL and not _says(request, "tools/")):
            return None
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith(("application/json", "text/event-stream")):
            return None
        if status >= httpx2.codes.BAD_REQUEST:
            return f"answered HTTP {status} {response.reason_phrase}".rstrip()
        if status == httpx2.codes.OK and not _says(request, "notifications/"):
            return f"answered with `{kind or 'nothing'}` instead of a message"
        return None

    def _may_follow(self, request: httpx2.Request, following: httpx2.Request) -> bool:
        """Whether a redirect stays where it is: once, at the same origin, such as for a slash at the end."""
        old, new = request.url, following.url
        same = (old.scheme, old.host, old.port, request.method) == (new.scheme, new.host, new.port, following.method)
        return same and old == self._url and new != self._url


def _says(request: httpx2.Request, method: str) -> bool:
    """Whether a request carries a message of such a method."""
    if request.method != "POST":
        return False
    before_its_arguments = request.content[:1000].partition(b'"params"')[0]
    return f'"method":"{method}'.encode() in before_its_arguments


def _question(request: httpx2.Request) -> Question:
    """What a request asks for; a stream that is merely opened asks for nothing."""
    if request.method != "POST":
        return Question(None, None)
    message = from_json(request.content)
    return Question(message.get("method"), message.get("id"))


def _refusal(request: httpx2.Request, reason: str, code: int = REFUSED) -> httpx2.Response:
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
    """Yield the two streams an mcp `Client` takes; `on_end` hears when the connection is of no more use."""
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _ContainedClient(url, headers, on_end) as client,
        # The events are capped before they come there, and an error in place of one is longer than nothing.
        streamable_http_client(url, http_client=client, max_sse_event_size=2 * LINE_CAP) as streams,
    ):
        yield streams
