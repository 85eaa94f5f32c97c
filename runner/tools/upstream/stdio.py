"""The stdio transport: newline-delimited JSON-RPC with a child process that may be broken or hostile.

Owns the framing, its caps, and the handling of lines that are no messages. Must not know: sessions, tools, reconnecting.
Invariants: any output of the child costs bounded memory and never raises into the session; a call whose answer cannot be
read fails at once if the answer's id is readable.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from runner.tools.upstream.framing import (
    NO_MESSAGE,
    SAMPLE,
    TOO_LONG,
    UNREADABLE,
    WANTED_NOTIFICATIONS,
    Meter,
    OutputFlood,
    RawLine,
    may_be_too_much,
    read_lines,
    readable,
    too_many_values,
)
from runner.tools.upstream.process import ServerCommand, ServerProcess, StderrTail, start

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage
    from mcp.types import JSONRPCMessage

    Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
    Outgoing = MemoryObjectSendStream[SessionMessage]

_FLUSH_GRACE = 0.5
_STDERR_GRACE = 0.1

# Anchored, so that an `id` inside a result is never taken for the id of the message.
_ID_IN_FRONT = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*[,}]')
_ID_AT_END = re.compile(rb',\s*"id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

logger = logging.getLogger("outrider.upstream")


@asynccontextmanager
async def stdio_transport(
    command: ServerCommand, stderr_tail: StderrTail, on_end: Callable[[str], None]
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Start a server and yield the two streams of an mcp `Client`; `on_end` is called with how the server ended."""
    process = await start(command, stderr_tail)
    to_session, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    # Unbounded: messages for a child that does not read belong to calls in flight, which bounds them; and a cancelled
    # call must be able to send its cancellation at once, or it would wait for the child.
    outgoing, from_session = anyio.create_memory_object_stream["SessionMessage"](math.inf)
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
        self._meter = Meter()
        self._open: dict[str, str] = {}
        """The unanswered requests, by id; any other answer is dropped here, before it costs more."""
        self._asked = anyio.Event()
        """Set by the first message to the server. Reading begins then: until then the SDK may still be imported."""
        self._stderr_read = anyio.Event()
        self.written = anyio.Event()

    async def listen(self) -> None:
        """Keep the tail of standard error."""
        try:
            await self._process.listen()
        finally:
            self._stderr_read.set()

    async def read(self) -> None:
        """Pass messages to the session until the output ends, then report how it ended."""
        await self._asked.wait()
        try:
            async for line in read_lines(self._metered()):
                await self._pass_on(line)
        except OutputFlood as flood:
            self._on_end(str(flood))
        except (anyio.ClosedResourceError, OSError):
            logger.debug("output of process %d was closed", self._process.pid)
        await self._end()

    async def _metered(self) -> AsyncIterator[bytes]:
        async for chunk in self._process.stdout:
            self._meter.read(len(chunk))
            yield chunk

    async def write(self) -> None:
        """Write the session's messages to the server."""
        try:
            async for message in self._from_session:
                self._asked.set()
                self._track(message.message)
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await self._process.stdin.send(text.encode() + b"\n")
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            await self._end()
        finally:
            self.written.set()

    async def _end(self) -> None:
        """Report how the server ended before the session's streams close, so that failed calls can say it."""
        ending = await self._process.ending()
        with anyio.move_on_after(_STDERR_GRACE):
            await self._stderr_read.wait()
        self._on_end(ending)
        self._to_session.close()

    def _track(self, message: JSONRPCMessage) -> None:
        """Track requests that await an answer."""
        from mcp.types import JSONRPCNotification, JSONRPCRequest

        if isinstance(message, JSONRPCRequest):
            self._open[str(message.id)] = message.method
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._open.pop(str((message.params or {}).get("requestId")), None)

    async def _pass_on(self, line: RawLine) -> None:
        message = self._message(line)
        if message is None:
            if not line.head.lstrip().startswith(b"{"):
                # Many servers print errors where only messages belong.
                self._process.stderr_tail.add(line.head[:SAMPLE])
        elif self._wanted(message.message):
            try:
                await self._to_session.send(message)
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                logger.debug("the session of process %d is over; its output is drained", self._process.pid)

    def _wanted(self, message: JSONRPCMessage) -> bool:
        """Whether a request awaits it, or it is an accepted notification or request."""
        from mcp.types import JSONRPCNotification, JSONRPCRequest

        if isinstance(message, JSONRPCNotification):
            return message.method in WANTED_NOTIFICATIONS and self._meter.admits()
        if isinstance(message, JSONRPCRequest):
            return self._meter.admits()
        if self._open.pop(str(message.id), None) is None:
            return False
        self._meter.answered()
        return True

    def _message(self, line: RawLine) -> SessionMessage | None:
        """The message on a line; an error in its place if only its id is readable; None if it is no message."""
        import mcp.types as t
        from mcp.shared.message import SessionMessage

        if line.complete and not line.head.strip():
            return None
        reason = TOO_LONG if not line.complete else self._too_much(line)
        if reason is None:
            try:
                return SessionMessage(t.jsonrpc_message_adapter.validate_json(readable(line.head), by_name=False))
            except ValueError:
                reason = NO_MESSAGE
        number = _number(line)
        if number is None:
            return None
        error = t.ErrorData(code=UNREADABLE, message=reason)
        return SessionMessage(t.JSONRPCError(jsonrpc="2.0", id=int(number), error=error))

    def _too_much(self, line: RawLine) -> str | None:
        return too_many_values(line.head, self._open.get(_number(line) or "")) if may_be_too_much(line.head) else None


def _number(line: RawLine) -> str | None:
    """The id of the message on a line, if it can be found without parsing all of it."""
    found = _ID_IN_FRONT.match(line.head) or _ID_AT_END.search(line.tail)
    return found[1].decode() if found is not None else None
