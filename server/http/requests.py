"""Open requests: known while they last, so that a stopping server can end them in order.

Owns how a request ends that cannot be finished: a stream is closed, and what has not been answered is refused with the time
to come back. Must not know: sockets. Invariant: every request it passes on is over when `finish` returns.
"""

from __future__ import annotations

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server.http.refusal import refusal

PARTING_SECONDS = 0.5
"""What a caller may take to accept the end of its answer."""


class OpenRequests:
    """Counts requests in and out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open: set[anyio.CancelScope] = set()
        self._idle = anyio.Event()
        self._idle.set()
        self._stopping = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, unless the server stops."""
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
        """Refuse new requests, give the open ones `seconds`, then end them."""
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
    """An answer that knows how far it got."""

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
        """Say what is still to be said."""
        if not self._begun:
            await refusal(503, "the server stops", "try again in a moment", {"retry-after": "1"})(
                scope, receive, self._send
            )
        elif not self._complete:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
