"""A host that may be killed at any moment: `python host.py COMMAND …`. Standard library only.

Owns: starting the command as its MCP server over stdio, dispatching one agent and waiting for its result; and saying on its
output what it does, a line each: `server PID`, `got ID`, `ended STATUS`. Must not know: Outrider.
"""

import json
import subprocess
import sys
from typing import Any

VERSION = "2025-11-25"


def main() -> None:
    """Greet, dispatch, wait."""
    server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tell("server", str(server.pid))
    ask(server, "initialize", protocolVersion=VERSION, capabilities={}, clientInfo={"name": "host", "version": "1"})
    send(server, {"method": "notifications/initialized"})
    execution = call(server, "dispatch_agent", name="Lead", task="go")["execution_id"]
    tell("got", execution)
    tell("ended", call(server, "get_result", execution_id=execution, wait_seconds=50)["status"])


def call(server: subprocess.Popen[str], tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool."""
    found: dict[str, Any] = ask(server, "tools/call", name=tool, arguments=arguments)["structuredContent"]
    return found


def ask(server: subprocess.Popen[str], method: str, **parameters: Any) -> dict[str, Any]:
    """The result of a request; whatever else comes before it is passed over."""
    send(server, {"id": 1, "method": method, "params": parameters})
    assert server.stdout is not None
    answers = (json.loads(line) for line in server.stdout)
    result: dict[str, Any] = next(answer["result"] for answer in answers if "method" not in answer)
    return result


def send(server: subprocess.Popen[str], message: dict[str, Any]) -> None:
    """One line."""
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def tell(*words: str) -> None:
    """Say it before anything else happens."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
