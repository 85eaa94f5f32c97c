"""Standard input and output as an MCP transport: one message a line, and nothing else ever reaches the output.

Owns the two descriptors. While it is open, descriptor 0 reads nothing and descriptor 1 is standard error, so that neither a
stray print nor a child process can tear a message. Invariant: leaving it never waits for the client, and a line that is too
long, no message, or one of too many costs bounded memory.
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
"""Longest message, as over HTTP."""
CHUNK = 65_536
SAMPLE = 4_096
"""Of a line that is too long, kept at either end: its id stands there."""
MOST_UNREAD = 100
"""Answers a client may leave unread before no more of its requests are taken; each is held in memory."""
LOOK_MS = 100
"""Between two looks whether it reads again, or has gone."""
PARTING_SECONDS = 0.5
"""What a client may take to accept the rest of an answer when we leave."""

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


async def over_stdio(server: Server[Any]) -> None:
    """Serve the one client that started this process, until it closes its side."""
    async with stdio_streams() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def stdio_streams() -> AsyncIterator[Streams]:
    """What the client writes, and where answers go. The first ends when the client closes its side."""
    inward, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, outward = anyio.create_memory_object_stream[SessionMessage](0)
    with _claimed() as (source, target):
        async with anyio.create_task_group() as group:
            reader = _Reader(source, inward, outgoing.clone(), anyio.lowlevel.current_token())
            # A daemon, because a blocking read cannot be called off.
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
    """Private duplicates of 0 and 1, which point elsewhere meanwhile."""
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
    """Reads lines in a thread of its own."""

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
            return  # the client is gone

    def _lines(self) -> Iterator[tuple[bytes, bool]]:
        """The lines, and whether they are whole: of one beyond the cap only its two ends are kept."""
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
        """Wait until the client takes what it asked for; False when it has gone instead."""
        while self._back.statistics().tasks_waiting_send > MOST_UNREAD:
            if _has_gone(self._source):
                return False
        return True

    def _in_loop(self, function: object, *arguments: object) -> None:
        anyio.from_thread.run(function, *arguments, token=self._token)  # type: ignore[arg-type]


def _has_gone(source: int) -> bool:
    """Look for a while whether the other side is closed, also when there is something left to read."""
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
    """Writes in a thread of its own: a daemon, because a client that no longer reads must not hold the process."""

    def __init__(self, target: int, token: anyio.lowlevel.EventLoopToken) -> None:
        self._target, self._token = target, token
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self.written = anyio.Event()
        """Set while nothing is under way."""
        self.written.set()

    async def write(self, line: bytes) -> None:
        """Return when the client has taken it, or is gone."""
        self.written = anyio.Event()
        self._lines.put(line)
        await self.written.wait()

    def close(self) -> None:
        """No more comes."""
        self._lines.put(None)

    def run(self) -> None:
        while (line := self._lines.get()) is not None:
            _write_all(self._target, line)
            try:
                anyio.from_thread.run_sync(self.written.set, token=self._token)
            except RuntimeError:
                return  # the client is gone


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
        return  # the client is gone; reading will end, too
