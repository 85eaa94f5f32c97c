"""The streamable-HTTP transport: an mcp transport over an HTTP client that contains failures.

Owns headers, time limits, redirects, and the translation of an HTTP failure into an answer to its one request. Must not
know: sessions, tools, reconnecting. Invariants: a failure of one request never ends another; every request is answered, by
the server or in its place; nothing is sent to any host but the configured one.
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
from runner.tools.upstream.http_response import BodyStream, EventStream, PostedRequest, server_error

_CONNECT_SECONDS = 10.0
_NOTIFICATION_SECONDS = 0.5
"""The transport posts notifications one by one; a server that does not take one must not block the rest. Cancellations are
posted in tasks of their own: cancelling many calls must not wait for the server each time.
"""

_MEANINGFUL = frozenset({httpx2.codes.BAD_REQUEST, httpx2.codes.NOT_FOUND})
"""Failures with a meaning in the protocol, during its version negotiation."""


class _ContainedClient(httpx2.AsyncClient):
    """A client whose requests are always answered; if the network or the server fails, by an error in its place."""

    aside: TaskGroup
    """For posts without an awaited answer; ends before the client."""

    def __init__(self, url: str, headers: Mapping[str, str], on_end: Callable[[str], None]) -> None:
        # Reading is bounded by the timeout of each call, which depends on the tool.
        timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None, write=None, pool=None)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        # A compressed answer has no bound on its unpacked size: none is requested and none accepted.
        sent = {"accept-encoding": "identity", **headers}
        self._url = httpx2.URL(url)
        # Loading the certificates takes 20 ms; plain HTTP needs none, and no redirect leads from it to HTTPS.
        verify = self._url.scheme == "https"
        super().__init__(headers=sent, timeout=timeout, limits=limits, follow_redirects=False, verify=verify)
        self._on_end = on_end

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        await request.aread()  # the body of a redirected request is still unread
        if _has_method(request, "notifications/cancelled"):
            self.aside.start_soon(self._post_unanswered, request, name=f"cancel at {self._url.host}")
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        if _has_method(request, "notifications/"):
            with anyio.move_on_after(_NOTIFICATION_SECONDS):
                return await self._contained(request, **options)
            return httpx2.Response(httpx2.codes.ACCEPTED, request=request)
        return await self._contained(request, **options)

    async def _post_unanswered(self, request: httpx2.Request) -> None:
        """Post a message without waiting for its answer."""
        with anyio.move_on_after(_NOTIFICATION_SECONDS):
            await self._contained(request)

    async def _contained(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            return self._away(request, f"cannot be reached: {_error_text(error)}")
        except httpx2.TransportError as error:
            return _refusal(request, f"broke off: {_error_text(error)}", CUT_OFF)
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
        """Why an answer is not read, and the code for what that means for the request."""
        status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            return "sent a compressed answer, which was not requested", NO_ANSWER
        if response.next_request is not None and not self._may_follow(request, response.next_request):
            return "redirects elsewhere, which is not followed", REFUSED
        if request.method != "POST" or (status in _MEANINGFUL and not _has_method(request, "tools/")):
            return None
        kind = response.headers.get("content-type", "").lower()
        if kind.startswith(("application/json", "text/event-stream")):
            return None
        if status >= httpx2.codes.BAD_REQUEST:
            return _status_error(response)
        if status == httpx2.codes.OK and not _has_method(request, "notifications/"):
            return f"answered with `{kind or 'nothing'}` instead of a message", NO_ANSWER
        if status == httpx2.codes.ACCEPTED and _has_method(request, "tools/"):
            return "answered HTTP 202 Accepted instead of a message", NO_ANSWER
        return None

    def _away(self, request: httpx2.Request, reason: str) -> httpx2.Response:
        """Answer in place of a server that cannot be reached; a tool call then ends the connection with this reason."""
        if not _has_method(request, "tools/call"):
            self._on_end(reason)
        return _refusal(request, reason, AWAY)

    def _may_follow(self, request: httpx2.Request, following: httpx2.Request) -> bool:
        """Whether to follow a redirect: once, and to the same origin, such as for a trailing slash."""
        old, new = request.url, following.url
        same = (old.scheme, old.host, old.port, request.method) == (new.scheme, new.host, new.port, following.method)
        return same and old == self._url and new != self._url


def _status_error(response: httpx2.Response) -> tuple[str, int]:
    """An error status as text and code: a refusal (4xx) did nothing, a failure (5xx) may have."""
    status = response.status_code
    said = f"answered HTTP {status} {response.reason_phrase}".rstrip()
    return said, REFUSED if status < httpx2.codes.INTERNAL_SERVER_ERROR else NO_ANSWER


def _has_method(request: httpx2.Request, method: str) -> bool:
    """Whether a request carries a message with this method."""
    if request.method != "POST":
        return False
    before_its_arguments = request.content[:1000].partition(b'"params"')[0]
    return f'"method":"{method}'.encode() in before_its_arguments


def _posted(request: httpx2.Request) -> PostedRequest:
    """The method and id that a request carries; a request that only opens a stream has none."""
    if request.method != "POST":
        return PostedRequest(None, None)
    message = from_json(request.content)
    return PostedRequest(message.get("method"), message.get("id"))


def _refusal(request: httpx2.Request, reason: str, code: int) -> httpx2.Response:
    """A response that makes the transport fail this request with this reason."""
    body = server_error(None, reason, code)
    headers = {"content-type": "application/json"}
    return httpx2.Response(httpx2.codes.BAD_GATEWAY, request=request, headers=headers, content=to_json(body))


def _error_text(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


@asynccontextmanager
async def http_transport(
    url: str, headers: Mapping[str, str], on_end: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the two streams of an mcp `Client`; `on_end` is called when the connection is unusable."""
    from mcp.client.streamable_http import streamable_http_client

    async with (
        _ContainedClient(url, headers, on_end) as client,
        anyio.create_task_group() as client.aside,
        # Events are capped before they get there, and an error in place of one needs room.
        streamable_http_client(url, http_client=client, max_sse_event_size=2 * LINE_CAP) as streams,
    ):
        yield streams
