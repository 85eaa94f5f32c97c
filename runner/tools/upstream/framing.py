"""What a server sends, before anybody believes it: lines, their caps, and which of them are worth a message.

Owns: the splitting into lines, the caps on size, values and floods, and the few things a server may say unasked. Must not
know: which transport carries the bytes, sessions or tools.
Invariant: whatever arrives costs bounded memory and time, and a refusal says why in words.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from time import monotonic
from typing import NamedTuple

import anyio.lowlevel

LINE_CAP = 10_000_000
"""Longest message; anything longer is refused while it is read, never gathered."""

VALUE_CAP = 100_000
"""Most values in one result: objects cost many times the bytes they are made from, and all at once."""

LIST_VALUE_CAP = 30_000
"""The same for any other message: each value of a list of tools is looked at several times."""

PAGE_TOOL_CAP = 1500
"""Most tools on one page of a list: the SDK makes all of them at one go."""

FLOOD_CAP = 200_000_000
"""Most that is read between two answers somebody waits for; a server that writes more will never stop by itself."""

UNASKED_PER_SECOND = 100
"""Questions and changes that are passed on; more of them would only cost a task each."""

WANTED_NOTIFICATIONS = frozenset(
    {
        "notifications/cancelled",
        "notifications/tools/list_changed",
        "notifications/subscriptions/acknowledged",
    }
)
"""Everything else a server says unasked would only cost a task each; a flood of it must not."""

TOO_LONG = f"the answer is longer than {LINE_CAP // 1_000_000} MB"
NO_MESSAGE = "the answer is not a valid message"
FLOODED = f"wrote {FLOOD_CAP // 1_000_000} MB that nobody asked for"

UNREADABLE = -32700
"""The code of an error in place of an answer that came and cannot be taken (JSON-RPC: parse error)."""

CUT_OFF = -32050
"""The code of an error in place of an answer that never came; ours, from the range left to implementations."""

REFUSED = -32051
"""The code of an error in place of an answer that says the request was not taken, such as a status; ours."""

AWAY = -32053
"""The code of an error in place of an answer of a server that is not there for us, so that it took nothing; ours."""

NO_ANSWER = -32052
"""The code of an error in place of something that says nothing of what became of the request, such as a page; ours."""

SAMPLE = 4096
_LINES_AT_ONCE = 1000
"""A chunk may be nothing but line ends; others have their turn in between."""

_OF_A_TOOL = b'"inputSchema"'

FEW_BYTES = 250_000
"""Up to here the values are bounded by the bytes."""


class OutputFlood(Exception):
    """The server writes and writes, and nobody waits for any of it."""


class RawLine(NamedTuple):
    """One line, or of one that exceeded the cap its first or its last bytes."""

    head: bytes
    tail: bytes
    complete: bool


async def read_lines(stream: AsyncIterable[bytes], cap: int = LINE_CAP) -> AsyncIterator[RawLine]:
    """Split a stream into lines in linear time, holding no more than the cap and one chunk.

    A line over the cap is told of twice: with its first bytes when it crosses the cap, with its last when it ends.
    """
    parts: list[bytes] = []
    size = count = 0
    tail = b""
    async for piece in stream:
        chunk = piece
        while chunk:
            part, newline, chunk = chunk.partition(b"\n")
            before, size = size, size + len(part)
            if size <= cap:
                parts.append(part)
            else:
                tail = (tail + part)[-SAMPLE:]
                if before <= cap:
                    yield RawLine((b"".join(parts) + part)[:SAMPLE], b"", complete=False)
                    parts = []
            if newline:
                yield _taken(parts) if size <= cap else RawLine(b"", tail, complete=False)
                size, tail = 0, b""
                count += 1
                if count % _LINES_AT_ONCE == 0:
                    await anyio.lowlevel.checkpoint()


def _taken(parts: list[bytes]) -> RawLine:
    """The line these parts make; they are taken away, so that a long one is held once."""
    whole = b"".join(parts)
    parts.clear()
    return RawLine(whole, whole[-SAMPLE:], complete=True)


def too_many_values(message: bytes, method: str | None) -> str | None:
    """Why the answer to such a request is not taken: it would become too many values, counted before any is made."""
    if method != "tools/call" and message.count(_OF_A_TOOL) > PAGE_TOOL_CAP:
        return f"the answer lists more than {PAGE_TOOL_CAP} tools at once"
    if len(message) <= FEW_BYTES:
        return None
    cap = VALUE_CAP if method == "tools/call" else LIST_VALUE_CAP
    return f"the answer holds more than {cap} values" if _values_exceed(message, cap) else None


def may_be_too_much(message: bytes) -> bool:
    """Whether it is worth finding out what a message answers: nearly none is."""
    return len(message) > FEW_BYTES or _OF_A_TOOL in message


def _values_exceed(message: bytes, cap: int) -> bool:
    if message.count(b'"') - message.count(b'\\"') > 4 * cap:
        return True
    if b"\\" in message:
        message = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(message.split(b'"')[::2])
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{") > cap


def readable(message: bytes) -> bytes:
    """The message in the one encoding it may have, whatever it was written in."""
    if message.isascii():
        return message
    try:
        message.decode()
    except UnicodeDecodeError:
        return message.decode("utf-8", "replace").encode()
    return message


class Meter:
    """Counts what nobody asked for since somebody last got an answer."""

    __slots__ = ("_bytes", "_second", "_unasked")

    def __init__(self) -> None:
        self._bytes = 0
        self._unasked = 0
        self._second = 0.0

    def read(self, size: int) -> None:
        """Count bytes that came; raise OutputFlood when they have become too many."""
        self._bytes += size
        if self._bytes > FLOOD_CAP:
            raise OutputFlood(FLOODED)

    def answered(self) -> None:
        """Somebody got an answer: what came before was the price of it."""
        self._bytes = 0

    def admits(self) -> bool:
        """Say whether one more message that nobody asked for is passed on."""
        now = monotonic()
        if now - self._second > 1.0:
            self._second, self._unasked = now, 0
        self._unasked += 1
        return self._unasked <= UNASKED_PER_SECOND
