"""A stdio server of one execution, good or bad at ending: `python own_server.py KIND`. Standard library only.

Owns: the kinds. `obeys` ends with its input. `breeds` does so, but has a child in its group that hears no signal and keeps
the output. `ignores` has such a child, and is like it. `stuck` neither reads nor answers nor hears, once it was called.
Must not know: Outrider or the SDK. Invariant: it starts at once, because there are many.
"""

import json
import os
import signal
import sys
from typing import Any, NoReturn


def rest() -> NoReturn:
    """Nothing but a kill ends this."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def answer_to(kind: str, method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request, or None for a method it does not know."""
    if method == "initialize":
        version, info = parameters.get("protocolVersion"), {"name": kind, "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "poke", "description": "Poke.", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        if kind == "stuck" or (kind in ("breeds", "ignores") and not os.fork()):
            rest()
        return {"content": [{"type": "text", "text": str(os.getpid())}]}
    return None


def main(kind: str) -> None:
    """Answer line by line."""
    if kind == "ignores":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer_to(kind, message["method"], message.get("params") or {})
            error = {"code": -32601, "message": "no such method"}
            reply = {"result": result} if result is not None else {"error": error}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
            sys.stdout.flush()
    if kind == "ignores":
        rest()


if __name__ == "__main__":
    main(sys.argv[1])
