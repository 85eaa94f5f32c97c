"""Standard input and output as an MCP transport: one message a line, and nothing else ever reaches the output.

Owns the two descriptors. While it is open, descriptor 0 reads nothing and descriptor 1 is standard error, so that neither a
stray print nor a child process can tear a message. Invariant: leaving it never waits for the client, and a line that is too
long or no message costs bounded memory.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as t
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage

LINE_CAP = 4 * 1024 * 1024
"""Longest message, as over HTTP."""
CHUNK = 65_536
SAMPLE = 4_096
"""Of a line that cannot be taken, where its id is looked for."""

_ID = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,200}")')

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
            group.start_soon(_write, outward, target, name="write to stdout")
            with incoming, outgoing:
                yield incoming, outgoing
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
            self._in_loop(self._inward.aclose)
        except (RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # nobody listens any more

    def _lines(self) -> Iterator[tuple[bytes, bool]]:
        """The lines, and whether they are whole: of one beyond the cap only the beginning is kept."""
        parts: list[bytes] = []
        size = 0
        while chunk := _read(self._source):
            while chunk:
                head, newline, chunk = chunk.partition(b"\n")
                if size <= LINE_CAP:
                    parts.append(head)
                    size += len(head)
                if newline:
                    yield b"".join(parts), size <= LINE_CAP
                    parts, size = [], 0
        if parts:
            yield b"".join(parts), size <= LINE_CAP

    def _take(self, line: bytes, *, whole: bool) -> None:
        if whole and not line.strip():
            return
        try:
            if not whole:
                raise ValueError(f"the message is longer than {LINE_CAP // 1024**2} MB")
            message = t.jsonrpc_message_adapter.validate_json(line.decode("utf-8", "replace"), by_name=False)
        except (ValueError, RecursionError) as error:
            reason = str(error) if not whole else "the line is not a JSON-RPC message"
            self._in_loop(self._back.send, SessionMessage(_refusal(line, reason)))
        else:
            self._in_loop(self._inward.send, SessionMessage(message))

    def _in_loop(self, function: object, *arguments: object) -> None:
        anyio.from_thread.run(function, *arguments, token=self._token)  # type: ignore[arg-type]


def _read(source: int) -> bytes:
    try:
        return os.read(source, CHUNK)
    except OSError:
        return b""


def _refusal(line: bytes, reason: str) -> t.JSONRPCError:
    """An answer to what could not be read, to its id if one can be seen."""
    found = _ID.search(line[:SAMPLE])
    identifier = None if found is None else found[1].decode("utf-8", "replace")
    return t.JSONRPCError(
        jsonrpc="2.0",
        id=None if identifier is None else identifier.strip('"') if identifier.startswith('"') else int(identifier),
        error=t.ErrorData(code=t.PARSE_ERROR, message=reason),
    )


async def _write(outward: MemoryObjectReceiveStream[SessionMessage], target: int) -> None:
    with outward:
        async for message in outward:
            line = message.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            # Left alone on leaving: a client that no longer reads must not hold the process.
            await anyio.to_thread.run_sync(_write_all, target, line.encode(), abandon_on_cancel=True)


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError:
        return  # the client is gone; reading will end, too
