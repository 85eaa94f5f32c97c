"""Standard input and output as an MCP transport: one message per line, and no other output.

Owns the two descriptors, and the order of lines. While it is open, descriptor 0 reads nothing and descriptor 1 is standard
error, so that neither a stray print nor a child process can corrupt a message. Until the SDK is imported, lines are
answered early or kept; then the SDK reads the kept ones first. Invariants: closing never blocks on the client; overlong
lines, invalid messages, unread answers and kept lines cost bounded memory.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from server.mcp_face.early import OPENING, EarlyAnswers
from server.service import Service

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

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


class InputLine(NamedTuple):
    """A line of the client; of one that is too long only the two ends."""

    data: bytes
    is_whole: bool = True


Outgoing = MemoryObjectSendStream["SessionMessage | bytes"]
"""Takes messages of the SDK, and answers that are encoded already."""
Streams = tuple[MemoryObjectReceiveStream[InputLine], Outgoing]


async def over_stdio(service: Service) -> None:
    """Serve the client that started this process, until it closes standard input."""
    async with stdio_streams() as (lines, outgoing), anyio.create_task_group() as group:
        relay = Relay(lines, outgoing.clone(), EarlyAnswers(service))
        group.start_soon(relay.run, name="relay lines")
        group.start_soon(relay.answer_kept, service, name="answer kept requests")
        with relay.incoming:
            server = await service.server()
            group.start_soon(relay.pass_kept, name="pass kept lines")
            await server.run(relay.incoming, outgoing, server.create_initialization_options())
        group.cancel_scope.cancel("the client is gone")


class Relay:
    """Brings lines to the SDK. Until it is there, they are answered early or kept."""

    def __init__(self, lines: MemoryObjectReceiveStream[InputLine], outgoing: Outgoing, early: EarlyAnswers) -> None:
        self._lines, self._outgoing, self._early = lines, outgoing, early
        self._inward, self.incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        self._kept: list[InputLine] = []
        self._passing = anyio.Event()
        """Set when no line is kept any more."""

    async def run(self) -> None:
        """Take lines until the client closes standard input."""
        with self._lines, self._inward, self._outgoing:
            async for line in self._lines:
                if self._passing.is_set():
                    await self._pass(line)
                else:
                    await self._answer_or_keep(line)
            await self._passing.wait()

    async def answer_kept(self, service: Service) -> None:
        """Answer what waits for the settings, as soon as they are loaded."""
        await service.settings()
        while (found := self._early.answer_kept([line.data for line in self._kept])) is not None:
            number, answer = found
            del self._kept[number]
            await self._outgoing.send(answer)

    async def pass_kept(self) -> None:
        """Pass the kept lines to the SDK, in the order they came; those that come meanwhile are kept behind them."""
        while self._kept:
            await self._pass(self._kept.pop(0))
        self._passing.set()

    async def _answer_or_keep(self, line: InputLine) -> None:
        answer, left = self._early.answer(line.data) if line.is_whole else (None, line.data)
        if left is not None:
            self._kept.append(InputLine(left, line.is_whole))
        if answer is not None:
            await self._outgoing.send(answer)
        if len(self._kept) >= MOST_UNREAD or sum(len(each.data) for each in self._kept) > LINE_CAP:
            await self._passing.wait()

    async def _pass(self, line: InputLine) -> None:
        # Late: both import what the SDK is made of. It is imported by now.
        from mcp.shared.message import SessionMessage

        from server.messages import NotAMessage, message_of, too_long

        try:
            message = message_of(line.data) if line.is_whole else too_long(line.data, LINE_CAP)
        except NotAMessage as error:
            await self._outgoing.send(SessionMessage(error.refusal))
        else:
            await self._inward.send(SessionMessage(message))


@asynccontextmanager
async def stdio_streams() -> AsyncIterator[Streams]:
    """Lines from the client, and messages to it. The first ends when the client closes standard input."""
    inward, incoming = anyio.create_memory_object_stream[InputLine](0)
    outgoing, outward = anyio.create_memory_object_stream["SessionMessage | bytes"](0)
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
        inward: MemoryObjectSendStream[InputLine],
        back: Outgoing,
        token: anyio.lowlevel.EventLoopToken,
    ) -> None:
        self._source, self._inward, self._back, self._token = source, inward, back, token

    def run(self) -> None:
        try:
            for line in self._lines():
                if not line.is_whole or line.data.strip():
                    self._in_loop(self._inward.send, line)
                if not self._is_taken():
                    break
            self._in_loop(self._inward.aclose)
        except (RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the event loop or the stream is closed

    def _lines(self) -> Iterator[InputLine]:
        """The lines. Of a line over the cap only the two ends are kept."""
        line, size = bytearray(), 0
        while chunk := _read(self._source):
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                yield InputLine(bytes(line + part), size + len(part) <= LINE_CAP)
                line, size = bytearray(), 0
            line, size = line + rest, size + len(rest)
            if size > LINE_CAP:
                del line[SAMPLE:-SAMPLE]
        if line:
            yield InputLine(bytes(line), size <= LINE_CAP)

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


async def _write(outward: MemoryObjectReceiveStream[SessionMessage | bytes], writer: _Writer) -> None:
    with outward:
        async for message in outward:
            if isinstance(message, bytes):
                await writer.write(message + b"\n")
            elif getattr(message.message, "id", None) != OPENING:  # that one was answered early
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                await writer.write(line.encode())


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return  # the client has disconnected, so the reader ends too
