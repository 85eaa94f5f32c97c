"""The farewell of a client of the older era: it deletes its session, and whoever cares is told.

Owns noticing it. Must not know: what becomes of the client's work. A client of the newer era has no session and says none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Left = Callable[[str], Awaitable[None]]
"""Hears the session that has ended."""


class Farewell:
    """Tells `left` of every session that a client has ended itself."""

    def __init__(self, app: ASGIApp, left: Left) -> None:
        self._app, self._left = app, left

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and look at what became of it."""
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
