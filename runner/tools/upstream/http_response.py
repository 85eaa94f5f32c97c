"""The answers of an HTTP server, read under the same caps as the lines of a child process.

Owns bodies and event streams, and the error in place of an unusable answer. Must not know: who asked, or what is asked
next. Invariants: neither stream raises for a server's fault; each request gets one answer; nothing beyond the cap is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

import anyio.lowlevel
import httpx2
from pydantic_core import from_json, to_json

from runner.tools.upstream.framing import (
    CUT_OFF,
    LINE_CAP,
    REASON,
    SAMPLE,
    TOO_LONG,
    UNREADABLE,
    WANTED_NOTIFICATIONS,
    Meter,
    OutputFlood,
    read_lines,
    readable,
    too_many_values,
)

_SLICE = 256_000
"""Bytes passed on at once: the reader processes each slice without yielding."""

_LONGEST_NOTICE = 65_536


class PostedRequest(NamedTuple):
    """The method and id of a request; without an id no answer is awaited."""

    method: str | None
    number: object


THE_SERVER = "the server {reason}"


def error_message(number: object, message: str, code: int = UNREADABLE) -> dict[str, object]:
    """An error in the form of a server's answer."""
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def server_error(number: object, reason: str, code: int) -> dict[str, object]:
    """An error about the server: in words, and its reason as data."""
    error = {"code": code, "message": THE_SERVER.format(reason=reason), "data": {REASON: reason}}
    return {"jsonrpc": "2.0", "id": number, "error": error}


class _Contained(httpx2.AsyncByteStream):
    """The stream of a server's answer."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: PostedRequest) -> None:
        self._stream = stream
        self._posted = request

    async def aclose(self) -> None:
        """Release the connection."""
        await self._stream.aclose()

    def _error(self, reason: str, code: int = UNREADABLE) -> bytes:
        return to_json(error_message(self._posted.number, reason, code))


class BodyStream(_Contained):
    """A JSON body; with an error status it is an answer only if it is a message."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: PostedRequest, otherwise: tuple[str, int] | None) -> None:
        super().__init__(stream, request)
        self._otherwise = otherwise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body, or an error in its place."""
        parts: list[bytes] = []
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > LINE_CAP:
                    yield self._error(TOO_LONG)
                    return
                parts.append(chunk)
        except httpx2.TransportError as error:
            yield self._error(f"the answer broke off: {error}", CUT_OFF)
            return
        body = b"".join(parts)
        refused = too_many_values(body, self._posted.method)
        if refused is not None:
            yield self._error(refused)
        elif self._otherwise is not None and b'"jsonrpc"' not in body:
            yield to_json(server_error(self._posted.number, *self._otherwise))
        else:
            yield readable(body)


class EventStream(_Contained):
    """A stream of events: one message each, without unwanted ones, and without ids, so that none is resumed."""

    def __init__(self, stream: httpx2.AsyncByteStream, request: PostedRequest) -> None:
        super().__init__(stream, request)
        self._meter = Meter()
        self._answered = request.number is None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the events; the last one is the answer, or an error in its place."""
        reason = "ended its answer without a result"
        try:
            async for event in self._events():
                if self._wanted(event):
                    pieces = [event[start : start + _SLICE] for start in range(0, len(event), _SLICE)]
                    del event  # a long event is held once, and shrinks with every slice that is yielded
                    pieces.reverse()
                    yield b"data: " + pieces.pop()
                    while pieces:
                        await anyio.lowlevel.checkpoint()
                        yield pieces.pop()
                    yield b"\n\n"
        except _Refused as refused:
            yield b"data: " + self._error(str(refused)) + b"\n\n"
            return
        except OutputFlood as flood:
            reason = str(flood)
        except httpx2.TransportError as error:
            reason = f"broke off: {error}"
        if not self._answered:
            yield b"data: " + self._error(reason, CUT_OFF) + b"\n\n"

    async def _events(self) -> AsyncIterator[bytes]:
        """The data of each event; raises _Refused for an unusable one."""
        data: list[bytes] = []
        size = 0
        async for line in read_lines(self._unix_lines()):
            size += len(line.head)
            if not line.complete or size > LINE_CAP:
                raise _Refused(TOO_LONG)
            if line.head.startswith(b"data:"):
                data.append(line.head[5:])
            elif not line.head:
                data, size = [b" ".join(data)], 0
                if (refused := too_many_values(data[0], self._posted.method)) is not None:
                    raise _Refused(refused)
                if data[0].strip():
                    yield data.pop()
                data.clear()
            elif line.head.startswith(b":"):
                size = 0

    async def _unix_lines(self) -> AsyncIterator[bytes]:
        """The bytes with LF in place of each of the three line ends that events may have."""
        held = b""
        async for chunk in self._stream:
            self._meter.read(len(chunk))
            piece = held + chunk
            held = b"\r" if piece.endswith(b"\r") else b""
            if b"\r" in piece:
                piece = piece[: len(piece) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            yield piece

    def _wanted(self, event: bytes) -> bool:
        """Whether it is an answer, or an accepted notification or request."""
        method, is_question = _method(event)
        if method is None:
            if b'"result"' not in event and b'"error"' not in event:
                return False
            self._answered = True
            self._meter.answered()
            return True
        return (is_question or method in WANTED_NOTIFICATIONS) and self._meter.admits()


class _Refused(Exception):
    """An unusable event, with the reason."""


def _method(event: bytes) -> tuple[str | None, bool]:
    """The method of a message and whether it is a request; None for an answer or no message."""
    if len(event) > _LONGEST_NOTICE or b'"method"' not in event[:SAMPLE]:
        return None, False
    try:
        message = from_json(event)
    except ValueError:
        return None, False
    method = message.get("method") if isinstance(message, dict) else None
    return (method, "id" in message) if isinstance(method, str) else (None, False)
