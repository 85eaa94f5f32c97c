"""Standard input and output as an MCP transport: one message per line, and no other output.

Owns the two descriptors. While it is open, descriptor 0 reads nothing and descriptor 1 is standard error, so that neither a
stray print nor a child process can corrupt a message. Invariants: closing never blocks on the client; overlong lines,
invalid messages and unread answers cost bounded memory.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from queue import SimpleQueue
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import mcp_types as t
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

from server.messages import NotAMessage, id_at_ends, message_of

LINE_CAP = 4 * 1024 * 1024
"""Longest message in bytes, as over HTTP."""
CHUNK = 65_536
SAMPLE = 4_096
"""Bytes kept of either end of an overlong line: they contain its id."""
MOST_UNREAD = 100
"""Unread answers of a client, held in memory, above which no more of its requests are read."""
LOOK_MS = 100
"""Interval of the check whether it reads again or has disconnected."""
PARTING_SECONDS = 0.5
"""Time for a client to accept the rest of an answer at shutdown."""

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


async def over_stdio(server: Server[Any]) -> None:
    """Serve the client that started this process, until it closes standard input."""
    async with stdio_streams() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def stdio_streams() -> AsyncIterator[Streams]:
    """Streams of messages from and to the client. The first ends when the client closes standard input."""
    inward, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outward = anyio.create_memory_object_stream[SessionMessage](0)
    with _claimed() as (source, target):
        async with anyio.create_task_group() as group:
            reader = _Reader(source, inward, outgoing.clone(), anyio.lowlevel.current_token())
            # A daemon, because a blocking read cannot be cancelled.
            threading.Thread(target=reader.run, name="outrider-stdin", daemon=True).start()
            writer = _Writer(target, anyio.lowlevel.current_token())
            threading.Thread(target=writer.run, name="outrider-stdout", daemon=True).start()
            group.start_soon(_write, outward, writer, name="write to stdout")
            try:
                with incoming, outgoing:
                    yield incoming, outgoing
            finally:
                with anyio.move_on_after(PARTING_SECONDS, shield=True):
                    await writer.written.wait()
                writer.close()
            group.cancel_scope.cancel()


@contextmanager
def _claimed() -> Iterator[tuple[int, int]]:
    """Duplicate descriptors 0 and 1, and redirect the originals until the exit."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, target
    finally:
        os.dup2(source, 0)
        os.dup2(target, 1)


class _Reader:
    """Reads lines in its own thread."""

    def __init__(
        self,
        source: int,
        inward: MemoryObjectSendStream[Incoming],
        back: MemoryObjectSendStream[SessionMessage],
        token: anyio.lowlevel.EventLoopToken,
    ) -> None:
        self._source, self._inward, self._back, self._token = source, inward, back, token

    def run(self) -> None:
        try:
            for line, whole in self._lines():
                self._take(line, whole=whole)
                if not self._is_taken():
                    break
            self._in_loop(self._inward.aclose)
        except (RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the event loop or the stream is closed

    def _lines(self) -> Iterator[tuple[bytes, bool]]:
        """The lines, and whether each is whole. Of a line over the cap only the two ends are kept."""
        line, size = bytearray(), 0
        while chunk := _read(self._source):
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                yield bytes(line + part), size + len(part) <= LINE_CAP
                line, size = bytearray(), 0
            line, size = line + rest, size + len(rest)
            if size > LINE_CAP:
                del line[SAMPLE:-SAMPLE]
        if line:
            yield bytes(line), size <= LINE_CAP

    def _take(self, line: bytes, *, whole: bool) -> None:
        if whole and not line.strip():
            return
        try:
            if not whole:
                raise NotAMessage(
                    t.INVALID_REQUEST, f"the message is longer than {LINE_CAP // 1024**2} MB", id_at_ends(line)
                )
            message = message_of(line)
        except NotAMessage as error:
            self._in_loop(self._back.send, SessionMessage(error.refusal))
        else:
            self._in_loop(self._inward.send, SessionMessage(message))

    def _is_taken(self) -> bool:
        """Wait until the client reads its answers; False if it disconnects instead."""
        while self._back.statistics().tasks_waiting_send > MOST_UNREAD:
            if _has_gone(self._source):
                return False
        return True

    def _in_loop(self, function: object, *arguments: object) -> None:
        anyio.from_thread.run(function, *arguments, token=self._token)  # type: ignore[arg-type]


def _has_gone(source: int) -> bool:
    """Poll for `LOOK_MS` whether the client has closed the pipe; unread input does not hide that."""
    if not hasattr(select, "poll"):
        time.sleep(LOOK_MS / 1000)
        return False
    poll = select.poll()
    poll.register(source, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(LOOK_MS))


def _read(source: int) -> bytes:
    try:
        return os.read(source, CHUNK)
    except OSError:
        return b""


class _Writer:
    """Writes lines in its own thread: a daemon, because a client that stops reading must not block the exit."""

    def __init__(self, target: int, token: anyio.lowlevel.EventLoopToken) -> None:
        self._target, self._token = target, token
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self.written = anyio.Event()
        """Set while no write is in progress."""
        self.written.set()

    async def write(self, line: bytes) -> None:
        """Return when the line is written, or the client has disconnected."""
        self.written = anyio.Event()
        self._lines.put(line)
        await self.written.wait()

    def close(self) -> None:
        """End the thread after the lines that are queued."""
        self._lines.put(None)

    def run(self) -> None:
        while (line := self._lines.get()) is not None:
            _write_all(self._target, line)
            try:
                anyio.from_thread.run_sync(self.written.set, token=self._token)
            except RuntimeError:
                return  # the event loop is closed


async def _write(outward: MemoryObjectReceiveStream[SessionMessage], writer: _Writer) -> None:
    with outward:
        async for message in outward:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            await writer.write(line.encode())


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return  # the client has disconnected, so the reader ends too
