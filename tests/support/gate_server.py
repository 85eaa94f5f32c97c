"""A stdio server whose one tool, `wait`, answers when its gate opens: `python gate_server.py FIFO`. Standard library only.

Owns: the gate. Must not know: Outrider or the SDK. Invariant: whoever opens the FIFO for writing goes on exactly when a
call is waiting, and the call answers with what was written once the writer closes. When nobody can ask any more it ends,
also with a call at the gate.
"""

import json
import os
import sys
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any


def answer_to(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request, or None for a method it does not know."""
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
    """Read beside the call that waits, so that the end of the input is the end of the server."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def main() -> None:
    """Answer line by line."""
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
