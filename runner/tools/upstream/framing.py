"""Framing: the lines a server sends, their caps, and which of them become messages.

Owns the splitting into lines, the caps on size, values and floods, and the list of accepted notifications. Must not know:
transports, sessions or tools. Invariant: any input costs bounded memory and time, and a refusal has a reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from time import monotonic
from typing import NamedTuple

import anyio.lowlevel

LINE_CAP = 10_000_000
"""The longest message; a longer one is refused while it is read, never buffered."""

VALUE_CAP = 100_000
"""The most values in one result: parsed objects cost many times their bytes, all at once."""

LIST_VALUE_CAP = 30_000
"""The same for other messages: each value of a tool list is visited several times."""

PAGE_TOOL_CAP = 1500
"""The most tools on one page: the SDK parses them all at once."""

FLOOD_CAP = 200_000_000
"""The most that is read between two requested answers; a server that writes more will not stop by itself."""

UNREQUESTED_PER_SECOND = 100
"""Requests and changes that are passed on; each costs a task."""

WANTED_NOTIFICATIONS = frozenset(
    {
        "notifications/cancelled",
        "notifications/tools/list_changed",
        "notifications/subscriptions/acknowledged",
    }
)
"""Notifications that are passed on; each other one would only cost a task."""

TOO_LONG = f"the answer is longer than {LINE_CAP // 1_000_000} MB"
NO_MESSAGE = "the answer is not a valid message"
FLOODED = f"wrote {FLOOD_CAP // 1_000_000} MB of unrequested output"

UNREADABLE = -32700
"""Code for an answer that came and cannot be read (JSON-RPC: parse error)."""

CUT_OFF = -32050
"""Code for an answer that never came; ours, from the range left to implementations."""

REFUSED = -32051
"""Code for an answer that shows the request was refused, such as a status; ours."""

AWAY = -32053
"""Code for a server that could not be reached, so that nothing was sent; ours."""

NO_ANSWER = -32052
"""Code for an answer that leaves the outcome open, such as an HTML page; ours."""

REASON = "reason"
"""The key in the data of our errors: what the server did, without a subject."""

SAMPLE = 4096
_LINES_AT_ONCE = 1000
"""A chunk may consist of line ends only; the loop yields in between."""

_OF_A_TOOL = b'"inputSchema"'

FEW_BYTES = 250_000
"""Below this size the bytes bound the values."""


class OutputFlood(Exception):
    """The server writes without end, and no request waits for it."""


class RawLine(NamedTuple):
    """One line; of a line over the cap its first or its last bytes."""

    head: bytes
    tail: bytes
    complete: bool


async def read_lines(stream: AsyncIterable[bytes], cap: int = LINE_CAP) -> AsyncIterator[RawLine]:
    """Split a stream into lines in linear time, holding no more than the cap and one chunk.

    A line over the cap is yielded twice: its first bytes when it crosses the cap, its last when it ends.
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
    """Join and clear the parts, so that a long line is held once."""
    whole = b"".join(parts)
    parts.clear()
    return RawLine(whole, whole[-SAMPLE:], complete=True)


def too_many_values(message: bytes, method: str | None) -> str | None:
    """Why an answer to such a request is refused: too many values, counted before any is built."""
    if method != "tools/call" and message.count(_OF_A_TOOL) > PAGE_TOOL_CAP:
        return f"the answer lists more than {PAGE_TOOL_CAP} tools at once"
    if len(message) <= FEW_BYTES:
        return None
    cap = VALUE_CAP if method == "tools/call" else LIST_VALUE_CAP
    return f"the answer holds more than {cap} values" if _values_exceed(message, cap) else None


def may_be_too_much(message: bytes) -> bool:
    """A quick check that rules out nearly every message."""
    return len(message) > FEW_BYTES or _OF_A_TOOL in message


def _values_exceed(message: bytes, cap: int) -> bool:
    if message.count(b'"') - message.count(b'\\"') > 4 * cap:
        return True
    if b"\\" in message:
        message = message.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside = b"".join(message.split(b'"')[::2])
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{") > cap


def readable(message: bytes) -> bytes:
    """The message as UTF-8, whatever its encoding."""
    if message.isascii():
        return message
    try:
        message.decode()
    except UnicodeDecodeError:
        return message.decode("utf-8", "replace").encode()
    return message


class Meter:
    """Counts unrequested output since the last requested answer."""

    __slots__ = ("_bytes", "_second", "_unrequested")

    def __init__(self) -> None:
        self._bytes = 0
        self._unrequested = 0
        self._second = 0.0

    def read(self, size: int) -> None:
        """Count received bytes; raises OutputFlood when they are too many."""
        self._bytes += size
        if self._bytes > FLOOD_CAP:
            raise OutputFlood(FLOODED)

    def answered(self) -> None:
        """A requested answer arrived: start counting from zero."""
        self._bytes = 0

    def admits(self) -> bool:
        """Whether one more unrequested message is passed on."""
        now = monotonic()
        if now - self._second > 1.0:
            self._second, self._unrequested = now, 0
        self._unrequested += 1
        return self._unrequested <= UNREQUESTED_PER_SECOND
