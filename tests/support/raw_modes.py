"""The modes of a hostile server, shared by pipe and HTTP: a mode is a way to answer one request.

Owns: the misbehaviour and its bytes. Must not know: Outrider, the SDK, or the transport.
Invariant: standard library only; a mode misbehaves for `poke` and never for `well`, which shows whether the server answers.
"""

import json
import os
from collections.abc import Callable
from itertools import count as counting
from pathlib import Path
from threading import Event
from typing import Any, Protocol

POKE: dict[str, Any] = {"name": "poke", "inputSchema": {"type": "object"}}
WELL: dict[str, Any] = {"name": "well", "inputSchema": {"type": "object"}}
LONG = 12_000_000
"""Bytes of a text that makes a line too long."""


class Channel(Protocol):
    """The channel for the answer to one request: lines of JSON, which HTTP sends as one event each."""

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        ...

    def rest(self) -> None:
        """Neither answer nor end."""
        ...

    def end(self) -> None:
        """Close the channel in order."""
        ...

    def die(self) -> None:
        """Break off abruptly."""
        ...

    def chatter(self, size: int) -> None:
        """Send `size` bytes outside of messages."""
        ...


def answer(channel: Channel, number: Any, result: object) -> None:
    """Send a valid answer."""
    channel.write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n")


def text(channel: Channel, number: Any, words: str = "ok") -> None:
    """Send a valid result of a tool call."""
    answer(channel, number, {"content": [{"type": "text", "text": words}]})


def raw_text(number: Any, words: bytes) -> bytes:
    """The result of a call with bytes that no encoder would write."""
    return b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}\n' % (number, words)


def notification(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}).encode() + b"\n"


# -- calls -------------------------------------------------------------------------------------------------------------


def _long_line(channel: Channel, number: int, size: int = LONG) -> None:
    channel.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number)
    for _ in range(size // 60_000):
        channel.write(b"x" * 60_000)
    channel.write(b'"}]}}\n')


def _long_line_id_last(channel: Channel, number: int) -> None:
    """A line over the cap with its `id` last, as some servers write it."""
    words = b"x" * LONG
    channel.write(b'{"result":{"content":[{"type":"text","text":"%b"}]},"jsonrpc":"2.0","id":%d}\n' % (words, number))


def _endless_line(channel: Channel, number: int) -> None:
    channel.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number)
    while True:
        channel.write(b"x" * 65536)


def _endless_notifications(channel: Channel, _: int) -> None:
    notices = notification("message", level="info", data="x" * 900) * 64
    while True:
        channel.write(notices)


def _flood(channel: Channel, number: int) -> None:
    notices = notification("message", level="info", data="x" * 900) * 64
    for _ in range(300):
        channel.write(notices)
    text(channel, number)


def _change_flood(channel: Channel, number: int) -> None:
    channel.write(notification("tools/list_changed") * 20_000)
    text(channel, number)


def _question_flood(channel: Channel, number: int) -> None:
    questions = [json.dumps({"jsonrpc": "2.0", "id": f"q{each}", "method": "ping"}) for each in range(20_000)]
    channel.write("\n".join(questions).encode() + b"\n")
    text(channel, number)


def _dribble(channel: Channel, number: int) -> None:
    for byte in raw_text(number, b"slow"):
        channel.write(bytes([byte]))
        Event().wait(1)


def _noise(channel: Channel, number: int) -> None:
    channel.write(b"\r\n\r\nhello\r\n{}\n[1]\nnull\n\x00\x1b[31m\n")
    text(channel, number)


def _chatter(channel: Channel, number: int) -> None:
    channel.chatter(10_000_000)
    text(channel, number)


def _newlines(channel: Channel, number: int) -> None:
    channel.write(b"\n" * 50_000)
    text(channel, number)


def _twice(channel: Channel, number: int) -> None:
    text(channel, number, "first")
    text(channel, number, "second")


def _stale(channel: Channel, number: int) -> None:
    """Repeat the answers to earlier requests, then send the right one."""
    for earlier in range(number):
        text(channel, earlier, "stale")
    text(channel, number)


def _cut(channel: Channel, number: int) -> None:
    channel.write(raw_text(number, b"half")[:40])
    channel.die()


def _wide(number: int) -> bytes:
    """Nine million bytes that parse into three million objects."""
    return b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"v":[%b]}}}\n' % (
        number,
        b",".join([b"[]"] * 3_000_000),
    )


def _bad_pattern(channel: Channel, number: int) -> None:
    """An answer on which the pattern of the server's schema backtracks exponentially."""
    answer(channel, number, {"content": [], "structuredContent": {"v": "a" * 60 + "!"}})


CALLS: dict[str, Callable[[Channel, int], None]] = {
    "bad_pattern": _bad_pattern,
    "bad_utf8": lambda channel, number: channel.write(raw_text(number, b"caf\xe9")),
    "change_flood": _change_flood,
    "chatters": _chatter,
    "cut_answer": _cut,
    "cut_json": lambda channel, number: channel.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[\n' % number),
    "deep_json": lambda channel, number: channel.write(
        b'{"jsonrpc":"2.0","id":%d,"result":%b\n' % (number, b"[" * 100_000)
    ),
    "dies": lambda channel, _: channel.die(),
    "dribbles": _dribble,
    "endless_line": _endless_line,
    "endless_notifications": _endless_notifications,
    "ends": lambda channel, _: channel.end(),
    "flood": _flood,
    "hangs": lambda channel, _: channel.rest(),
    "deaf": lambda channel, _: channel.rest(),
    "huge": lambda channel, number: _long_line(channel, number, 100_000_000),
    "large": lambda channel, number: _long_line(channel, number, 8_000_000),
    "long_line_id_last": _long_line_id_last,
    "newlines": _newlines,
    "noise": _noise,
    "nul": lambda channel, number: channel.write(raw_text(number, rb"a\u0000b")),
    "question_flood": _question_flood,
    "stale": _stale,
    "surrogate": lambda channel, number: channel.write(raw_text(number, rb"\ud800")),
    "twice": _twice,
    "wide": lambda channel, number: channel.write(_wide(number)),
    "wrong_id": lambda channel, number: text(channel, number + 1000),
    "wrong_shape": lambda channel, number: answer(channel, number, {"content": "none"}),
}

# -- lists -------------------------------------------------------------------------------------------------------------


def _nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"deeper": schema}}
    return schema


def _tools(mode: str, changed: int) -> list[dict[str, Any]]:
    match mode:
        case "many" | "far_too_many":
            count = 1400 if mode == "many" else 10_000
            return [POKE | {"name": f"poke{number}", "description": "x" * 500} for number in range(count)]
        case "large_description":
            vast = {"name": "vast", "inputSchema": {"type": "object", "description": "x" * 200_000}}
            return [POKE | {"description": "x" * 1_000_000}, vast]
        case "twin":
            return [POKE, WELL, POKE | {"description": "another"}]
        case "reaching_schema":
            away = {"type": "object", "properties": {"v": {"$ref": "http://169.254.169.254/latest/meta-data"}}}
            return [POKE | {"inputSchema": away}, WELL]
        case "deep_schema":
            return [POKE | {"inputSchema": _nested(60)}, WELL]
        case "bad_pattern":
            return [POKE | {"outputSchema": {"type": "object", "properties": {"v": {"pattern": "^(a+)+$"}}}}]
        case "defined":
            return list(json.loads(Path(os.environ["TOOLS"]).read_text(encoding="utf-8")))
        case "changes" | "change_flood" if changed:
            return [POKE, WELL, {"name": f"new{changed}", "inputSchema": {"type": "object"}}]
        case _:
            return [POKE, WELL]


PAGES = counting()

LISTS: dict[str, Callable[[Channel, int], None]] = {
    "mute_list": lambda channel, _: channel.rest(),
    "list_dies": lambda channel, _: channel.die(),
    "list_cut": lambda channel, number: channel.write(b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[\n' % number),
    "list_huge": lambda channel, number: _long_line(channel, number, LONG),
    "list_wrong_shape": lambda channel, number: answer(channel, number, {"tools": "none"}),
    "cursor_loop": lambda channel, number: answer(channel, number, {"tools": [POKE, WELL], "nextCursor": "again"}),
    "endless_pages": lambda channel, number: answer(
        channel, number, {"tools": [POKE | {"name": f"poke{next(PAGES)}"}], "nextCursor": f"{next(PAGES)}"}
    ),
}


class Server:
    """A hostile server, on either transport."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.changed = 0

    def respond(self, channel: Channel, message: dict[str, Any]) -> None:
        """Answer one request as the mode says."""
        number: Any = message.get("id")
        match message.get("method"):
            case "initialize" if self.mode != "never_answers":
                version = message["params"]["protocolVersion"]
                info = {"name": "raw", "version": "1"}
                offered = {"tools": {"listChanged": True}}
                answer(channel, number, {"protocolVersion": version, "capabilities": offered, "serverInfo": info})
            case "tools/list":
                misbehave = LISTS.get(self.mode)
                if misbehave is not None:
                    misbehave(channel, number)
                else:
                    answer(channel, number, {"tools": _tools(self.mode, self.changed)})
            case "tools/call" if self.mode == "meta":
                text(channel, number, json.dumps(message["params"].get("_meta", {})))
            case "tools/call" if message["params"]["name"] == "poke":
                self.changed += 1
                self._poke(channel, number)
            case "tools/call":
                text(channel, number, "well")
            case _ if self.mode == "never_answers":
                channel.rest()
            case _ if number is not None and self.mode != "ignores_unknown":
                error = {"code": -32601, "message": "no such method"}
                channel.write(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n")

    def _poke(self, channel: Channel, number: int) -> None:
        if self.mode == "changes":
            channel.write(notification("tools/list_changed"))
        misbehave: Callable[[Channel, int], None] = CALLS.get(self.mode, text)
        misbehave(channel, number)
