"""A small part of HTTP/1.1: parses requests from the bytes of one connection and encodes replies.

Owns: the framing. Must not know: what a request means. Invariant: requests are parsed alike however reads split the bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

HEADER_END = b"\r\n\r\n"


class Unreadable(Exception):
    """A request that this reader cannot parse; a body needs a `Content-Length`."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request: its path without the query, and its body."""

    path: str
    body: bytes


class RequestReader:
    """Collects the bytes of one connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[HttpRequest]:
        """The requests that are complete with these bytes; raises Unreadable."""
        self._buffer += data
        while (end := self._buffer.find(HEADER_END)) >= 0:
            head, start = bytes(self._buffer[:end]), end + len(HEADER_END)
            size = _content_length(head)
            if len(self._buffer) < start + size:
                return
            body = bytes(self._buffer[start : start + size])
            del self._buffer[: start + size]
            yield HttpRequest(head.split(b" ", 2)[1].partition(b"?")[0].decode("latin-1"), body)


def response(status: str, body: bytes, content_type: str = "application/json") -> bytes:
    """A reply with its headers."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nrequest-id: req_fake\r\nContent-Length: {len(body)}"
    return head.encode() + HEADER_END + body


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
        if name == b"transfer-encoding":
            raise Unreadable(line.decode("latin-1"))

    return 0
