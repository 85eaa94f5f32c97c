"""The message in a request to the MCP endpoint, looked at before the SDK does, which would repeat what it found wrong.

Owns the answer to a body that is no message. Must not know: methods or callers.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from server.http.body import replayed
from server.messages import NotAMessage, message_of


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
