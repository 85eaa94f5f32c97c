"""Time to a host's first answers: `outrider serve` beside a bare server of the SDK, over stdio.

Run it with `python -m bench.handshake [--rounds N]`. Owns: the two commands, the dialogue and the clock. Invariant: rounds
alternate, so that a slower machine affects both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

BARE = """
from mcp.server import MCPServer

server = MCPServer("bare", version="1")

@server.tool()
def echo(words: str) -> str:
    return words

server.run()
"""

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


def commands(folder: Path) -> Mapping[str, Sequence[str]]:
    """The command of each server."""
    bare = folder / "bare.py"
    bare.write_text(BARE, encoding="utf-8")
    outrider = Path(sys.executable).with_name("outrider")
    return {
        "bare MCPServer": [sys.executable, str(bare)],
        "outrider serve": [str(outrider), "--db", str(folder / "bench.db"), "serve"],
    }


def dialogue(command: Sequence[str]) -> tuple[float, float]:
    """Seconds from the start of the process to the answers to `initialize` and to `tools/list`."""
    began = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        _say(process, {"id": 1, "method": "initialize", "params": HELLO})
        _answer(process, 1)
        greeted = time.perf_counter() - began
        _say(process, {"method": "notifications/initialized"})
        _say(process, {"id": 2, "method": "tools/list"})
        _answer(process, 2)
        listed = time.perf_counter() - began
        process.kill()
    return greeted, listed


def _say(process: subprocess.Popen[bytes], message: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[bytes], identifier: int) -> None:
    assert process.stdout is not None
    while line := process.stdout.readline():
        said = json.loads(line)
        if said.get("id") == identifier:
            if "result" not in said:
                raise SystemExit(f"error: {said}")
            return
    raise SystemExit("error: a server ended before it answered")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Measure the time to a host's first answers.")
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        contestants = commands(Path(folder))
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
        for _ in range(rounds):
            for name, command in contestants.items():
                figures[name].append(dialogue(command))
    print(f"| server, {rounds} rounds | ms to `initialize` | ms to `tools/list` |\n|---|---|---|")
    for name, seen in figures.items():
        greeted, listed = zip(*seen, strict=True)
        print(f"| {name} | {_shown(greeted)} | {_shown(listed)} |")


def _shown(seconds: Sequence[float]) -> str:
    return f"{median(seconds) * 1e3:.0f} ({min(seconds) * 1e3:.0f}–{max(seconds) * 1e3:.0f})"


if __name__ == "__main__":
    main()
