"""What every request passes before a route sees it: Host and Origin, sizes, the whole body, and one readable message.

Owns the two allow-lists, which stop DNS rebinding by foreign pages, the limits of headers and body, and the headers every
answer carries. Must not know: routes or callers. Invariants: a request that fails a check reaches nothing behind it; a name
that cannot be parsed exactly is not allowed; at most the limit of a body is ever held.
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
"""Of the target and all headers together; access tokens may be long."""

EVERY_ANSWER = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
"""A route that needs another value sets its own."""

ARRIVAL_SECONDS = 30.0
"""What a caller may take to send its request."""

THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "[::1]"})

_AUTHORITY = re.compile(r"(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
_ORIGIN = re.compile(rf"https?://(?P<authority>{_AUTHORITY.pattern})")


class AllowedNames:
    """What a Host and an Origin may say."""

    def __init__(self, http: HttpSpec, bound: Address) -> None:
        own = {bound.name.lower()} if not bound.is_everywhere else set[str]()
        if http.oauth is not None:  # clients must be able to use the address their tokens are made for
            own.add(urlsplit(http.oauth.audience).netloc.lower())
        self._hosts = THIS_MACHINE | own | set(http.allowed_hosts)
        self._origins = frozenset(http.allowed_origins)

    def host(self, value: str) -> bool:
        """Whether a Host header names this server: with its port where the list has one, else with any."""
        found = _AUTHORITY.fullmatch(value.lower())
        return found is not None and bool({found[0], found["name"]} & self._hosts)

    def origin(self, value: str, host: str) -> bool:
        """Whether a page may call: one that is listed, one of this machine, or one that was served under the same name."""
        found = _ORIGIN.fullmatch(value.lower())
        if found is None:
            return False
        return found[0] in self._origins or found["name"] in THIS_MACHINE or found["authority"] == host.lower()


class Guard:
    """Lets through what may be looked at."""

    def __init__(self, app: ASGIApp, names: AllowedNames) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, then pass it on."""
        if scope["type"] == "http":
            layer = self._refused(scope) or self._app
            await layer(scope, receive, _hardened(send))

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        weight = len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(k) + len(v) for k, v in headers.raw)
        if len(headers) > MOST_HEADERS or weight > MOST_HEADER_BYTES:
            return refusal(431, "too many headers, or too long ones")
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        # A target with a host of its own would count for more than the Host header.
        if len(hosts) != 1 or not self._names.host(hosts[0]) or not scope["path"].startswith("/"):
            return refusal(
                421, "unknown Host: this server does not answer to that name", "add the name to `serve.http.allowed_hosts`"
            )
        if len(origins) > 1 or (origins and not self._names.origin(origins[0], hosts[0])):
            return refusal(403, "pages of that origin are not allowed", "add the origin to `serve.http.allowed_origins`")
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
    """Passes a request on once it is there."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request in."""
        announced = int(Headers(scope=scope).get("content-length", "0"))  # uvicorn lets nothing but digits through
        body = self._too_long() if announced > self._limit else await self._body(receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
        elif body is not None:
            await self._app(scope, replayed(body, receive), send)

    async def _body(self, receive: Receive) -> bytes | Response | None:
        """All of it, the reason not to take it, or None when the caller has gone."""
        parts, size = list[bytes](), 0
        with anyio.move_on_after(ARRIVAL_SECONDS):
            while (message := await receive())["type"] == "http.request":
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > self._limit:
                    return self._too_long()
                if not message.get("more_body", False):
                    return b"".join(parts)
            return None
        return refusal(408, "the request body did not arrive in time", headers={"connection": "close"})

    def _too_long(self) -> Response:
        return refusal(413, f"a request has at most {self._limit} bytes", "`serve.http.max_body` sets the limit")


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever comes: that the caller goes away."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again


class OneMessage:
    """Passes on what can be read. Stands behind `WholeBody`, so that the body comes in one piece."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at one request."""
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
