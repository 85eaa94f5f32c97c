"""The stdio server that agents in crash trials use: `python field_server.py FIFO`. Standard library only.

Owns: `look`, which may run as often as anybody likes, `strike`, which must not run twice, and `hold`, a strike that has no
end; and telling each run, a line `TOOL LABEL`, into the FIFO before it answers. Must not know: Outrider or the SDK.
Invariant: a run that began was told, whatever becomes of its caller; it ends when nobody can ask any more.
"""

import json
import os
import sys
from typing import Any

TOOLS = ("look", "strike", "hold")


def call(tell: int, tool: str, label: str) -> dict[str, Any] | None:
    """Run a tool; None when it never answers."""
    os.write(tell, f"{tool} {label}\n".encode())
    return None if tool == "hold" else {"content": [{"type": "text", "text": f"{tool}: {label}"}]}


def answer_to(tell: int, method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None when there is none to give."""
    if method == "initialize":
        info = {"name": "field", "version": "1"}
        return {"protocolVersion": parameters.get("protocolVersion"), "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
        return {"tools": [{"name": name, "description": f"To {name}.", "inputSchema": schema} for name in TOOLS]}
    if method == "tools/call":
        return call(tell, parameters["name"], parameters["arguments"]["label"])
    return {}


def main() -> None:
    """Answer line by line."""
    tell = os.open(sys.argv[1], os.O_WRONLY)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        known = message["method"] in ("initialize", "tools/list", "tools/call", "ping")
        result = answer_to(tell, message["method"], message.get("params") or {}) if known else None
        if result is None and known:
            continue
        reply = {"result": result} if known else {"error": {"code": -32601, "message": "no such method"}}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
