"""Tracks open requests, which a stopping server must finish, and sessions that clients end.

Owns how an unfinished request ends: a stream is closed, an unanswered request is refused with a retry time. Must not know:
sockets, or the fate of a client's executions. Invariant: when `finish` returns, no request is open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.http_face.errors import refusal

PARTING_SECONDS = 0.5
"""Time for a caller to accept the end of its answer."""

Left = Callable[[str], Awaitable[None]]
"""Called with the id of a session that its client has ended."""


class OpenRequests:
    """Tracks open requests, and ends them when the server stops."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[anyio.CancelScope] = set()
        self._idle = anyio.Event()
        self._idle.set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        if not self._stopping:
            with anyio.CancelScope() as here:
                self._enter(here)
                try:
                    await self._app(scope, receive, answer)
                finally:
                    self._leave(here)
            if not here.cancel_called:
                return
        with anyio.move_on_after(PARTING_SECONDS):
            await answer.end(scope, receive)

    async def finish(self, seconds: float) -> None:
        """Refuse new requests, give open ones `seconds`, then cancel them."""
        self._stopping = True
        with anyio.move_on_after(seconds):
            await self._idle.wait()
        for each in self._open:
            each.cancel("the server stops")
        await self._idle.wait()

    def _enter(self, here: anyio.CancelScope) -> None:
        self._open.add(here)
        self._idle = anyio.Event() if self._idle.is_set() else self._idle

    def _leave(self, here: anyio.CancelScope) -> None:
        self._open.discard(here)
        if not self._open:
            self._idle.set()


class _Answer:
    """Tracks how much of an answer was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = self._complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
        elif message["type"] == "http.response.body":
            self._complete = not message.get("more_body", False)
        await self._send(message)

    async def end(self, scope: Scope, receive: Receive) -> None:
        """Refuse an unanswered request; close an unfinished body."""
        if not self._begun:
            refused = refusal(scope, 503, "the server is stopping", "try again in a moment", {"retry-after": "1"})
            await refused(scope, receive, self._send)
        elif not self._complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class SessionEnd:
    """Calls `left` for every session that its client ends by DELETE."""

    def __init__(self, app: ASGIApp, left: Left) -> None:
        self._app, self._left = app, left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if scope["method"] != "DELETE" or session is None:
            await self._app(scope, receive, send)
            return
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self._app(scope, receive, watched)
        if status in (200, 204):
            await self._left(session)
