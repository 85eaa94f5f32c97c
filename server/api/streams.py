"""Event streams over HTTP (SSE): what has happened since a number, then what happens, without a gap and without a repeat.

Owns the order of a stream: rows, then the feed; `caught_up` in between, `ended` at the end. Must not know: how events are
numbered or encoded. Invariants: a listener that does not read is cut off and costs others nothing; what it missed it reads
from rows when it returns.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from starlette.responses import Response
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from db.clock import loop_time
from server.api.topic import FramePage, Scope, Topic

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from db.rows.stored_events import StoredEvents
    from server.api.feed import Feed

HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
CAUGHT_UP = b"event: caught_up\ndata:\n\n"
ENDED = b"event: ended\ndata:\n\n"
LONG = 32 * 1024
NOTHING: Message = {"type": "http.response.body", "body": b"", "more_body": True}
"""Is sent once the reader has taken most of what came before, so that the last of long texts is waited for, too."""
ABORT = "abort"
"""In the state of an ASGI scope: closes the connection without waiting for its reader."""


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """What a listener asked for."""

    scope: Scope
    after: int
    finished_at: int | None = None
    """The number of the last event, if the top of the scope had ended when it asked."""


class EventStreamAnswer(Response):
    """An answer that goes on until its reader leaves, its tree ends or the server stops."""

    def __init__(self, feed: Feed, order: StreamOrder, until_over: Callable[[], Awaitable[None]]) -> None:
        """`until_over` returns when the caller may not listen any more."""
        super().__init__()
        self._feed, self._order, self._until_over = feed, order, until_over

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        stalled = False
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope, name="notice that a listener leaves")
            with anyio.CancelScope() as here:
                await self._carry(send, here, group)
            stalled = here.cancel_called
            group.cancel_scope.cancel("the stream is over")
        if stalled and (abort := scope.get("state", {}).get(ABORT)) is not None:
            abort()
            await anyio.lowlevel.checkpoint()  # the connection is lost before this answer ends

    async def _carry(self, send: Send, here: anyio.CancelScope, group: TaskGroup) -> None:
        with self._feed.line(here) as line:
            line.writing_since = loop_time()
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            await send({"type": "http.response.body", "body": b"retry: 1000\n\n", "more_body": True})
            line.writing_since = None
            with anyio.CancelScope() as allowed:
                group.start_soon(self._revoke, allowed, name="notice that a listener may listen no longer")
                async with self._feed.listening(self._order.scope) as topic, aclosing(self._texts(topic)) as texts:
                    async for text in texts:
                        line.writing_since = loop_time()
                        await send({"type": "http.response.body", "body": text, "more_body": True})
                        if len(text) >= LONG:
                            await send(NOTHING)
                        line.writing_since = None
            line.writing_since = loop_time()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _revoke(self, stream: anyio.CancelScope) -> None:
        await self._until_over()
        stream.cancel("the caller is no longer known")

    async def _texts(self, topic: Topic) -> AsyncGenerator[bytes]:
        listener = _Listener(topic, self._feed.stream, self._order.after)
        if self._order.finished_at is not None:
            listener.topic = Topic(topic.scope, self._order.finished_at)  # nothing comes after its rows
            async for text in listener.rows():
                yield text
            yield CAUGHT_UP + ENDED
            return
        told = False
        while True:
            async for text in listener.rows():
                yield text
            now = listener.news()
            if now.text:
                yield now.text
            if listener.ended:
                yield ENDED if told else CAUGHT_UP + ENDED
                return
            if not told and listener.position >= topic.end:
                told = True
                yield CAUGHT_UP
            await topic.wait(listener.position)


class _Listener:
    """How far one listener has come."""

    def __init__(self, topic: Topic, stream: StoredEvents, seen: int) -> None:
        self.topic, self._stream, self._seen = topic, stream, seen
        self.position = -1
        """In the topic; before its first event until the rows are read."""
        self.ended = False
        self._is_ahead = True
        """Whether its number may be that of an event that the topic gets later: rows can be ahead of the feed."""

    async def rows(self) -> AsyncGenerator[bytes]:
        """What the topic does not hold; nothing, unless the listener is new or was too slow."""
        if self.position >= self.topic.first:
            return
        while self._seen < self.topic.floor and (page := await self.topic.page(self._stream, self._seen)) is not None:
            yield page.text
            self._pass(page)
        self.position, self._is_ahead = self.topic.first_after(self._seen), True

    def news(self) -> FramePage:
        """The next of what the topic holds and the listener has not read; afterwards it has."""
        if self._is_ahead:
            self.position = self.topic.past(self.position, self._seen)
        page = self.topic.since(self.position)
        self.position = page.end
        self._pass(page)
        return page

    def _pass(self, page: FramePage) -> None:
        self.ended = self.ended or page.ended
        if page.seen is not None:
            self._seen, self._is_ahead = page.seen, False


async def _until_gone(receive: Receive, stream: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.cancel("the listener left")
