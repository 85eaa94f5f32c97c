"""A stdio server whose one tool, `wait`, answers when its gate opens: `python gate_server.py FIFO`. Standard library only.

Owns: the gate. Must not know: Outrider or the SDK. Invariant: opening the FIFO for writing returns exactly when a call is
waiting, and the call answers with the written text once the writer closes. The server exits when its input ends, even with
a call at the gate.
"""

import json
import os
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any


def answer_to(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None for an unknown method."""
    if method == "initialize":
        version = parameters.get("protocolVersion")
        info = {"name": "gate", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "wait", "description": "Wait.", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        words = Path(sys.argv[1]).read_text(encoding="utf-8")
        return {"content": [{"type": "text", "text": words}]}
    return {} if method == "ping" else None


def listen(lines: SimpleQueue[str]) -> None:
    """Read in a thread, so that the server exits at the end of its input even while a call waits."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def main() -> None:
    lines: SimpleQueue[str] = SimpleQueue()
    Thread(target=listen, args=[lines], daemon=True).start()
    while True:
        message = json.loads(lines.get())
        if "id" not in message or "method" not in message:
            continue
        result = answer_to(message["method"], message.get("params") or {})
        error = {"code": -32601, "message": "no such method"}
        reply = {"result": result} if result is not None else {"error": error}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
