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
from anyio.abc import TaskGroup
from pydantic_core import from_json, to_json

from runner.tools.upstream.framing import AWAY, CUT_OFF, LINE_CAP, NO_ANSWER, REFUSED
from runner.tools.upstream.http_response import BodyStream, EventStream, PostedRequest, error_message

_CONNECT_SECONDS = 10.0
_NOTIFICATION_SECONDS = 0.5
"""The transport posts notifications one by one; a server that does not take one must not hold up the rest. That a call was
given up is said aside: whoever cancels many at once does not wait for the server to hear of each.
"""

_MEANINGFUL = frozenset({httpx2.codes.BAD_REQUEST, httpx2.codes.NOT_FOUND})
"""Failures that have a meaning of their own in the protocol, where it asks who is there."""


class _ContainedClient(httpx2.AsyncClient):
    """A client whose requests are always answered: where the network or the server fails, by an error in its place."""

    aside: TaskGroup
    """For what is said without anybody waiting for it; ends before the client does."""

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
        if _says(request, "notifications/cancelled"):
            self.aside.start_soon(self._tell, request, name=f"cancel at {self._url.host}")
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        if _says(request, "notifications/"):
            with anyio.move_on_after(_NOTIFICATION_SECONDS):
                return await self._contained(request, **options)
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        return await self._contained(request, **options)

    async def _tell(self, request: httpx2.Request) -> None:
        """Post a message nobody waits for."""
        with anyio.move_on_after(_NOTIFICATION_SECONDS):
            await self._contained(request)

    async def _contained(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return self._away(request, f"cannot be reached: {_words(error)}")
        except httpx2.TransportError as error:
            return _refusal(request, f"broke off: {_words(error)}", CUT_OFF)
        if response.status_code == httpx2.codes.NOT_FOUND and "mcp-session-id" in request.headers:
            await response.aclose()
            return self._away(request, "has forgotten the session")
        refused = self._refused(request, response)
        if refused is not None:
            await response.aclose()
            return _refusal(request, *refused)
        kind = response.headers.get("content-type", "").lower()
        if isinstance(response.stream, httpx2.AsyncByteStream):
            if kind.startswith("application/json"):
                otherwise = _status_error(response) if response.is_error else None
                response.stream = BodyStream(response.stream, _posted(request), otherwise)
            elif kind.startswith("text/event-stream"):
                response.stream = EventStream(response.stream, _posted(request))
        return response

    def _refused(self, request: httpx2.Request, response: httpx2.Response) -> tuple[str, int] | None:
        """Why an answer is not even looked into, and the code that says what that means for the request."""
        status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            return "sent a compressed answer, though it was asked not to", NO_ANSWER
        if response.next_request is not None and not self._may_follow(request, response.next_request):
            return "redirects elsewhere, which is not followed", REFUSED
        if request.method != "POST" or (status in _MEANINGFUL and not _says(request, "tools/")):
            return None
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith(("application/json", "text/event-stream")):
            return None
        if status >= httpx2.codes.BAD_REQUEST:
            return _status_error(response)
        if status == httpx2.codes.OK and not _says(request, "notifications/"):
            return f"answered with `{kind or 'nothing'}` instead of a message", NO_ANSWER
        if status == httpx2.codes.ACCEPTED and _says(request, "tools/"):
            return "answered HTTP 202 Accepted instead of a message", NO_ANSWER
        return None

    def _away(self, request: httpx2.Request, reason: str) -> httpx2.Response:
        """Answer in place of a server that is not there for us. Whoever calls a tool ends the connection, knowing why."""
        if not _says(request, "tools/call"):
            self._on_end(reason)
        return _refusal(request, reason, AWAY)

    def _may_follow(self, request: httpx2.Request, following: httpx2.Request) -> bool:
        """Whether a redirect stays where it is: once, at the same origin, such as for a slash at the end."""
        old, new = request.url, following.url
        same = (old.scheme, old.host, old.port, request.method) == (new.scheme, new.host, new.port, following.method)
        return same and old == self._url and new != self._url


def _status_error(response: httpx2.Response) -> tuple[str, int]:
    """A status that is no answer, in words and as a code: whoever refuses has done nothing, whoever fails may have."""
    status = response.status_code
    said = f"answered HTTP {status} {response.reason_phrase}".rstrip()
    return said, REFUSED if status < httpx2.codes.INTERNAL_SERVER_ERROR else NO_ANSWER


def _says(request: httpx2.Request, method: str) -> bool:
    """Whether a request carries a message of such a method."""
    if request.method != "POST":
        return False
    before_its_arguments = request.content[:1000].partition(b'"params"')[0]
    return f'"method":"{method}'.encode() in before_its_arguments


def _posted(request: httpx2.Request) -> PostedRequest:
    """What a request asks for; a stream that is merely opened asks for nothing."""
    if request.method != "POST":
        return PostedRequest(None, None)
    message = from_json(request.content)
    return PostedRequest(message.get("method"), message.get("id"))


def _refusal(request: httpx2.Request, reason: str, code: int) -> httpx2.Response:
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
        anyio.create_task_group() as client.aside,
        # The events are capped before they come there, and an error in place of one is longer than nothing.
        streamable_http_client(url, http_client=client, max_sse_event_size=2 * LINE_CAP) as streams,
    ):
        yield streams
