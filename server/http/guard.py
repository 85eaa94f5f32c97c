"""The guard: the outermost layer, through which every request goes, whatever its path and whether there is one.

Owns the checks that need nothing but the head of a request (Host, Origin, sizes) and the headers every answer carries. Must
not know: routes or callers. Invariant: a request that fails a check reaches nothing behind it.
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.http.names import Names
from server.http.refusal import refusal

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


class Guard:
    """Lets through what may be looked at."""

    def __init__(self, app: ASGIApp, names: Names) -> None:
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
            return refusal(431, "the headers are too many or too long")
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        # A target with a host of its own would count for more than the Host header.
        if len(hosts) != 1 or not self._names.host(hosts[0]) or not scope["path"].startswith("/"):
            return refusal(
                421, "this server does not answer to that name", "`serve.http.allowed_hosts` lists further names"
            )
        if len(origins) > 1 or (origins and not self._names.origin(origins[0], hosts[0])):
            return refusal(403, "pages of that origin may not call", "`serve.http.allowed_origins` lists those that may")
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
