"""A client that may be killed at any moment: `python mortal.py URL ERA NAME COUNT`. Standard library only.

Owns: dispatching COUNT agents, each under a key of its own, then collecting every result; and saying on its output what it
does, a line each: `sending KEY`, `sent KEY`, `got KEY ID`, `waiting KEY`, `ended KEY STATUS`. Must not know: Outrider.
Invariant: started again it does the same again, with the same keys.
"""

import http.client
import json
import sys
from typing import Any
from urllib.parse import urlsplit

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


class Caller:
    """One connection."""

    def __init__(self, url: str, era: str) -> None:
        where = urlsplit(url)
        self._path, self._era = where.path, era
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=60)
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if era == MODERN:
            self._headers |= {"MCP-Protocol-Version": era, "Mcp-Method": "tools/call"}
        else:
            about = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "mortal", "version": "1"}}
            self._send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about})
            response = self._connection.getresponse()
            response.read()
            self._headers |= {"Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": era}
            self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            self._connection.getresponse().read()

    def _send(self, message: dict[str, Any]) -> None:
        named = {"Mcp-Name": message["params"]["name"]} if self._era == MODERN else {}
        self._connection.request("POST", self._path, json.dumps(message), self._headers | named)

    def call(self, tool: str, key: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool."""
        parameters = {"name": tool, "arguments": arguments} | ({"_meta": META} if self._era == MODERN else {})
        self._send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters})
        tell("sent", key)
        text = self._connection.getresponse().read().decode()
        lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith(("{", "data: {"))]
        answers = [json.loads(line) for line in lines]
        found: dict[str, Any] = next(each["result"]["structuredContent"] for each in answers if "result" in each)
        return found


def tell(*words: str) -> None:
    """Say it before anything else happens."""
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Dispatch, then collect."""
    url, era, name, count = sys.argv[1:]
    caller, started = Caller(url, era), {}
    for number in range(int(count)):
        key = f"{name}-{number}"
        tell("sending", key)
        started[key] = caller.call("dispatch_agent", key, name="Quick", task=f"look {key}", idempotency_key=key)[
            "execution_id"
        ]
        tell("got", key, started[key])
    for key, execution in started.items():
        tell("waiting", key)
        tell("ended", key, caller.call("get_result", key, execution_id=execution, wait_seconds=50)["status"])


if __name__ == "__main__":
    main()
