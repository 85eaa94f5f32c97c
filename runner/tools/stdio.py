"""The stdio transport: newline-delimited JSON-RPC with a child process that may be broken or hostile.

Owns: the framing, its caps, and what becomes of a line that is no message. Must not know: sessions, tools, reconnecting.
Invariant: whatever the child writes costs bounded memory and never raises into the session; a call whose answer cannot
be read fails at once if the answer can be told by its id.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from runner.tools.process import LastWords, ServerCommand, ServerProcess, start

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

    Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
    Outgoing = MemoryObjectSendStream[SessionMessage]

LINE_CAP = 10_000_000
"""Longest line taken for a message; anything longer is refused while it is read, never gathered."""

FLOOD_CAP = 200_000_000
"""Most that is read between two messages anybody wants; a server that writes more will never stop by itself."""

_SAMPLE = 4096
_OUTGOING_BUFFER = 256
"""Messages that wait for a child which does not read: a call that is given up must still be able to say so at once."""

_FLUSH_GRACE = 0.5
_HEARING_GRACE = 0.1
_WANTED_NOTIFICATIONS = frozenset({"notifications/cancelled", "notifications/tools/list_changed"})
"""Everything else a server says unasked would only cost a task each; a flood of it must not."""

# Anchored, so that an `id` inside a result is never taken for the id of the message.
_ID_IN_FRONT = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*[,}]')
_ID_AT_END = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

logger = logging.getLogger("outrider.upstream")


@dataclass(frozen=True, slots=True)
class Line:
    """One line, or of one that exceeded the cap its first or its last bytes."""

    head: bytes
    tail: bytes
    complete: bool


async def read_lines(stream: AsyncIterable[bytes], cap: int = LINE_CAP) -> AsyncIterator[Line]:
    """Split a stream into lines in linear time, holding no more than the cap and one chunk.

    A line over the cap is told of twice: with its first bytes when it crosses the cap, with its last when it ends.
    """
    parts: list[bytes] = []
    size = 0
    tail = b""
    async for piece in stream:
        chunk = piece
        while chunk:
            part, newline, chunk = chunk.partition(b"\n")
            before, size = size, size + len(part)
            if size <= cap:
                parts.append(part)
            else:
                tail = (tail + part)[-_SAMPLE:]
                if before <= cap:
                    yield Line((b"".join(parts) + part)[:_SAMPLE], b"", complete=False)
                    parts = []
            if newline:
                whole = b"".join(parts)
                yield Line(whole, whole[-_SAMPLE:], complete=True) if size <= cap else Line(b"", tail, complete=False)
                parts, size, tail = [], 0, b""


@asynccontextmanager
async def stdio_transport(
    command: ServerCommand, last_words: LastWords, on_end: Callable[[str], None]
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Start a server and yield the two streams an mcp `Client` takes; `on_end` hears how the server ended by itself."""
    process = await start(command, last_words)
    to_session, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    outgoing, from_session = anyio.create_memory_object_stream["SessionMessage"](_OUTGOING_BUFFER)
    pipe = _Pipe(process, to_session, from_session, on_end)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pipe.listen, name=f"stderr of {process.pid}")
        tasks.start_soon(pipe.read, name=f"stdout of {process.pid}")
        tasks.start_soon(pipe.write, name=f"stdin of {process.pid}")
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                outgoing.close()
                incoming.close()
                with anyio.move_on_after(_FLUSH_GRACE):
                    await pipe.written.wait()
                await process.stop()
            tasks.cancel_scope.cancel()
            to_session.close()
            from_session.close()


class _Flooded(Exception):
    """The server writes and writes, and none of it is a message."""


class _Pipe:
    """The three tasks between a process and a session."""

    def __init__(
        self,
        process: ServerProcess,
        to_session: MemoryObjectSendStream[SessionMessage | Exception],
        from_session: MemoryObjectReceiveStream[SessionMessage],
        on_end: Callable[[str], None],
    ) -> None:
        self._process = process
        self._to_session = to_session
        self._from_session = from_session
        self._on_end = on_end
        self._unwanted = 0
        self._heard = anyio.Event()
        self.written = anyio.Event()

    async def listen(self) -> None:
        """Keep what the server says on standard error."""
        try:
            await self._process.listen()
        finally:
            self._heard.set()

    async def read(self) -> None:
        """Pass messages on to the session until the output ends, then tell how it did."""
        try:
            async for line in read_lines(self._metered()):
                await self._pass_on(line)
        except _Flooded:
            self._on_end(f"wrote {FLOOD_CAP // 1_000_000} MB that nobody asked for")
        except (anyio.ClosedResourceError, OSError):
            logger.debug("output of process %d was closed", self._process.pid)
        await self._end()

    async def _metered(self) -> AsyncIterator[bytes]:
        async for chunk in self._process.stdout:
            self._unwanted += len(chunk)
            if self._unwanted > FLOOD_CAP:
                raise _Flooded
            yield chunk

    async def write(self) -> None:
        """Write the session's messages to the server."""
        try:
            async for message in self._from_session:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._process.stdin.send(text.encode() + b"\n")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await self._end()
        finally:
            self.written.set()

    async def _end(self) -> None:
        """Say how the server ended before the session hears that it has, so that its callers can."""
        ending = await self._process.ending()
        with anyio.move_on_after(_HEARING_GRACE):
            await self._heard.wait()
        self._on_end(ending)
        self._to_session.close()

    async def _pass_on(self, line: Line) -> None:
        message = _message(line)
        if message is None:
            if not line.head.lstrip().startswith(b"{"):
                # Many a server prints what went wrong where only messages belong.
                self._process.last_words.add(line.head[:_SAMPLE])
            return
        self._unwanted = 0
        try:
            await self._to_session.send(message)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            logger.debug("the session of process %d is over; its output is drained", self._process.pid)


def _message(line: Line) -> SessionMessage | None:
    """The message on a line; an error in its place if only its id is readable; None if it is not wanted or no message."""
    import mcp.types as t
    from mcp.shared.message import SessionMessage

    if line.complete:
        if not line.head.strip():
            return None
        try:
            message = t.jsonrpc_message_adapter.validate_json(line.head.decode("utf-8", "replace"), by_name=False)
        except ValueError:
            reason = "the answer is not a valid message"
        else:
            dropped = isinstance(message, t.JSONRPCNotification) and message.method not in _WANTED_NOTIFICATIONS
            return None if dropped else SessionMessage(message)
    else:
        reason = f"the answer is longer than {LINE_CAP // 1_000_000} MB"
    found = _ID_IN_FRONT.match(line.head) or _ID_AT_END.search(line.tail)
    if found is None:
        return None
    error = t.ErrorData(code=t.PARSE_ERROR, message=reason)
    return SessionMessage(t.JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=error))
