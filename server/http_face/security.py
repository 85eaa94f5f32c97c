"""The checks of every request before its route: Host and Origin, sizes, a whole body, and one valid message.

Owns the two allow-lists, which stop DNS rebinding by foreign pages, the limits of headers and body, and the security
headers of every answer. Must not know: routes or callers. Invariants: a request that fails a check goes no further; a name
that cannot be parsed exactly is not allowed; no more of a body is held in memory than its limit.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry import HttpSpec
from server.http_face.errors import refusal
from server.http_face.listen import Address
from server.messages import NotAMessage, message_of

MOST_HEADERS = 100
MOST_HEADER_BYTES = 16 * 1024
"""Limit of the target and all headers together; access tokens can be long."""

EVERY_ANSWER = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
    "cache-control": "no-store",
}
"""Default headers of an answer; a route may set its own value."""

ARRIVAL_SECONDS = 30.0
"""Time for a caller to send its request body."""

THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})

_AUTHORITY = re.compile(r"(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_ORIGIN = re.compile(rf"https?://(?P<authority>{_AUTHORITY.pattern})")


class AllowedNames:
    """The allow-lists of Host and Origin."""

    def __init__(self, http: HttpSpec, bound: Address) -> None:
        own = {bound.name.lower()} if not bound.is_everywhere else set[str]()
        if http.oauth is not None:  # clients use the URL that is the audience of their tokens
            own.add(urlsplit(http.oauth.audience).netloc.lower())
        self._hosts = THIS_MACHINE | own | set(http.allowed_hosts)
        self._origins = frozenset(http.allowed_origins)

    def host(self, value: str) -> bool:
        """Whether a Host header is allowed. A listed name without a port allows every port."""
        found = _AUTHORITY.fullmatch(value.lower())
        return found is not None and bool({found[0], found["name"]} & self._hosts)

    def origin(self, value: str, host: str) -> bool:
        """Whether an Origin is allowed: a listed one, one on this machine, or the one of the same host and port."""
        found = _ORIGIN.fullmatch(value.lower())
        if found is None:
            return False
        return found[0] in self._origins or found["name"] in THIS_MACHINE or found["authority"] == host.lower()


class Guard:
    """Refuses requests with a wrong Host or Origin or too large headers, and hardens every answer."""

    def __init__(self, app: ASGIApp, names: AllowedNames) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            layer = self._refused(scope) or self._app
            await layer(scope, receive, _hardened(send))

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        weight = len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(k) + len(v) for k, v in headers.raw)
        if len(headers) > MOST_HEADERS or weight > MOST_HEADER_BYTES:
            return refusal(scope, 431, "too many headers, or too long ones", "send fewer or shorter ones")
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        # An absolute target would override the Host header.
        if len(hosts) != 1 or not self._names.host(hosts[0]) or not scope["path"].startswith("/"):
            hint = "add the name to `serve.http.allowed_hosts`"
            return refusal(scope, 421, "unknown Host: this server does not answer to that name", hint)
        if len(origins) > 1 or (origins and not self._names.origin(origins[0], hosts[0])):
            hint = "add the origin to `serve.http.allowed_origins`"
            return refusal(scope, 403, "pages of that origin are not allowed", hint)
        return None


def _hardened(send: Send) -> Send:
    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message.setdefault("headers", [])
            headers = MutableHeaders(scope=message)
            for name, value in EVERY_ANSWER.items():
                headers.setdefault(name, value)
        await send(message)

    return answer


class WholeBody:
    """Reads the whole body of a request before the application sees it."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        announced = int(Headers(scope=scope).get("content-length", "0"))  # uvicorn rejects anything but digits
        body = self._too_long(scope) if announced > self._limit else await self._body(scope, receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
        elif body is not None:
            await self._app(scope, replayed(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | Response | None:
        """The body, a refusal, or None if the caller has disconnected."""
        parts, size = list[bytes](), 0
        with anyio.move_on_after(ARRIVAL_SECONDS):
            while (message := await receive())["type"] == "http.request":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > self._limit:
                    return self._too_long(scope)
                if not message.get("more_body", False):
                    return b"".join(parts)
            return None
        late = "the request body did not arrive in time"
        return refusal(scope, 408, late, "send it at once, or in smaller requests", {"connection": "close"})

    def _too_long(self, scope: Scope) -> Response:
        return refusal(scope, 413, f"a request has at most {self._limit} bytes", "`serve.http.max_body` sets the limit")


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body once, then further messages, such as a disconnect."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


class OneMessage:
    """Refuses a POST that is not one valid message. Needs `WholeBody` before it: it reads the body in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = (await receive()).get("body", b"")
        try:
            message_of(body)
        except NotAMessage as error:
            content = error.refusal.model_dump_json(by_alias=True, exclude_unset=True)
            await Response(content, 400, media_type="application/json")(scope, receive, send)
        else:
            await self._app(scope, replayed(body, receive), send)
