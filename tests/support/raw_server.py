"""A hostile stdio server for tests: `python tests/support/raw_server.py MODE`. Standard library only, so it starts at once.

Owns: everything a broken server may do on a pipe. Must not know: Outrider or the SDK.
Invariant: except where the mode says otherwise it shakes hands in the older protocol and lists one tool, `poke`.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The listing itself needs one, which is gone when it is looked at.
DESCRIPTORS = sorted(int(entry.name) for entry in list(Path("/proc/self/fd").iterdir()) if entry.exists())


CHANGED: list[int] = []


def write(data: bytes) -> None:
    """Write raw bytes where messages belong."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def answer(number: int, result: object) -> None:
    """Write a proper answer."""
    write(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n")


def text(number: int, words: str = "ok") -> None:
    """Answer a call properly."""
    answer(number, {"content": [{"type": "text", "text": words}]})


def raw_text(number: int, words: bytes) -> bytes:
    """The answer to a call, with bytes that no encoder would write."""
    return b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%b"}]}}\n' % (number, words)


def stand_still(_: int) -> None:
    """Neither answer nor read."""
    while True:
        signal.pause()


def endless_line(number: int) -> None:
    """An answer that never ends."""
    write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"' % number)
    while True:
        write(b"x" * 65536)


def long_line_id_last(number: int) -> None:
    """An answer over the cap, in the order of keys some servers use."""
    words = b"x" * 12_000_000
    write(b'{"result":{"content":[{"type":"text","text":"%b"}]},"jsonrpc":"2.0","id":%d}\n' % (words, number))


def flood(number: int) -> None:
    """Notifications first, a great many of them."""
    notice = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
    write((notice.encode() + b"\n") * 20_000)
    text(number)


def closes_output(_: int) -> None:
    """Go deaf and dumb but stay alive."""
    os.close(1)
    stand_still(_)


def dies(_: int) -> None:
    """End at once, with a last word."""
    sys.stderr.write("panic: no more disk\n")
    sys.stderr.flush()
    os._exit(3)


def noisy(number: int) -> None:
    """Answer among lines that are no messages, and say much elsewhere."""
    sys.stderr.write("chatter\n" * 200_000)
    write(b"\r\n\r\nhello\r\n{}\n[1]\nnull\n")
    text(number)


def environment(number: int) -> None:
    """What the process was given."""
    text(number, json.dumps({"variables": dict(os.environ), "descriptors": DESCRIPTORS, "group": os.getpgrp()}))


def twice(number: int) -> None:
    """Two answers to one call."""
    text(number, "first")
    text(number, "second")


def listed(mode: str) -> list[dict[str, Any]]:
    """The tools a mode offers."""
    poke: dict[str, Any] = {"name": "poke", "inputSchema": {"type": "object"}}
    if mode == "many":
        return [poke | {"name": f"poke{number}", "description": "x" * 1000} for number in range(3000)]
    if mode == "large":
        schema = {"type": "object", "description": "x" * 200_000}
        return [poke | {"description": "x" * 1_000_000}, {"name": "vast", "inputSchema": schema}]
    if mode == "bad_pattern":
        return [poke | {"outputSchema": {"type": "object", "properties": {"v": {"pattern": "^(a+)+$"}}}}]
    if mode == "changes" and CHANGED:
        return [poke, poke | {"name": "prod"}]
    return [poke]


def changes(number: int) -> None:
    """Offer more from now on, and say so."""
    CHANGED.append(number)
    write(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n')
    text(number)


def bad_pattern(number: int) -> None:
    """An answer on which the server's own pattern would run for ages."""
    answer(number, {"content": [], "structuredContent": {"v": "a" * 60 + "!"}})


POKES: dict[str, Callable[[int], None]] = {
    "bad_utf8": lambda number: write(raw_text(number, b"caf\xe9")),
    "surrogate": lambda number: write(raw_text(number, rb"\ud800")),
    "nul": lambda number: write(raw_text(number, rb"a\u0000b")),
    "deep_json": lambda number: write(b'{"jsonrpc":"2.0","id":%d,"result":%b\n' % (number, b"[" * 100_000)),
    "bad_json": lambda number: write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[\n' % number),
    "wrong_shape": lambda number: answer(number, {"content": "none"}),
    "wrong_id": lambda number: text(number + 1000),
    "hangs": stand_still,
    "endless_line": endless_line,
    "long_line": lambda number: write(raw_text(number, b"x" * 12_000_000)),
    "long_line_id_last": long_line_id_last,
    "flood": flood,
    "closes_output": closes_output,
    "dies": dies,
    "noisy": noisy,
    "twice": twice,
    "environment": environment,
    "changes": changes,
    "bad_pattern": bad_pattern,
    "pid": lambda number: text(number, str(os.getpid())),
}


def respond(mode: str, message: dict[str, Any]) -> None:
    """Answer one message in the way of the mode."""
    number: Any = message.get("id")
    match message.get("method"):
        case "initialize":
            info = {"name": "raw", "version": "1"}
            version = message["params"]["protocolVersion"]
            answer(number, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        case "tools/list":
            if mode == "mute_list":
                return
            answer(number, {"tools": listed(mode)})
        case "tools/call":
            POKES.get(mode, text)(number)
        case _ if number is not None and mode != "ignores_unknown":
            error = {"code": -32601, "message": "no such method"}
            write(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode() + b"\n")


def main() -> None:
    """Serve until the input ends, or not at all."""
    mode = sys.argv[1]
    if mode == "dies_at_start":
        sys.stderr.write("no configuration found\n")
        sys.exit(7)
    if mode == "never_answers":
        stand_still(0)
    if mode in ("stubborn", "hangs"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin.buffer:
        respond(mode, json.loads(line))
    if mode == "stubborn":
        stand_still(0)


if __name__ == "__main__":
    main()
