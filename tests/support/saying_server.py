"""A server that sends a given text through every channel: `python -m tests.support.saying_server FILE [TOOL…]` over stdio.

FILE holds the text. It appears in the server's instructions and name, in the descriptions,
schemas and results of its tools, in errors, in log messages and on standard error. Each TOOL is the name of one more tool.
A call with `times` repeats the text in a result so often. Must not know: Outrider or the SDK. Invariant: standard library
only.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SAID = Path(sys.argv[1]).read_text(encoding="utf-8") if __name__ == "__main__" else ""
HALF = len(SAID) // 2
WAYS = ("text", "two_blocks", "structured", "resource", "link", "tool_error", "protocol_error", "environment")
MORE = sys.argv[2:] if __name__ == "__main__" else []


def _tool(name: str) -> dict[str, Any]:
    way = {"type": "string", "title": SAID, "description": SAID, "enum": ["one", SAID], "default": SAID}
    schema = {"type": "object", "description": SAID, "properties": {"way": way, "more": {"const": SAID}}}
    return {"name": name, "title": SAID, "description": f"Says {SAID}", "inputSchema": schema}


def _result(way: str, times: int) -> dict[str, Any]:
    match way:
        case "two_blocks":
            parts = [{"type": "text", "text": part} for part in (SAID[:HALF], SAID[HALF:])]
            return {"content": parts}
        case "structured":
            return {"content": [], "structuredContent": {SAID[:100]: {"said": [SAID]}}}
        case "resource":
            return {"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": SAID}}]}
        case "link":
            return {"content": [{"type": "resource_link", "uri": "file:///a", "name": SAID}]}
        case "tool_error":
            return {"content": [{"type": "text", "text": SAID}], "isError": True}
        case "environment":
            return {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}
    return {"content": [{"type": "text", "text": SAID * times}]}


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            info = {"name": SAID[:200], "version": "1"}
            shaken = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            return {"result": {**shaken, "instructions": f"Use it so: {SAID}"}}
        case "tools/list":
            return {"result": {"tools": [_tool(way) for way in (*WAYS, *MORE)]}}
        case "tools/call":
            way = message["params"]["name"]
            if way == "protocol_error":
                return {"error": {"code": -32000, "message": f"it failed: {SAID}"}}
            return {"result": _result(way, message["params"].get("arguments", {}).get("times", 1))}
    return {"error": {"code": -32601, "message": "no such method"}}


def _write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    sys.stderr.write(f"{SAID}\n")
    sys.stderr.flush()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            _write({"method": "notifications/message", "params": {"level": "error", "data": SAID}})
            _write({"id": message["id"], **_answer(message)})


if __name__ == "__main__":
    main()
