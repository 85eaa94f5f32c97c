"""The body of a request: taken whole, within a size and a time, before a route sees the request.

Owns both limits. Invariant: of a body beyond the limit no more than the limit is ever held, whether its length was
announced or not.
"""

from __future__ import annotations

import anyio
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.http.refusal import refusal

ARRIVAL_SECONDS = 30.0
"""What a caller may take to send its request."""


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
        return refusal(408, "the request took too long to arrive", headers={"connection": "close"})

    def _too_long(self) -> Response:
        return refusal(413, f"a request has at most {self._limit} bytes", "`serve.http.max_body` sets the limit")


def replayed(body: bytes, receive: Receive) -> Receive:
    """The body once, then whatever comes: that the caller goes away."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return first.pop() if first else await receive()

    return again
