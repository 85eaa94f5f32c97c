"""The upstream tool of the benchmark: as a function, and as a real MCP server over stdio with `python -m bench.lookup`.

Owns: the tool's name, schema and answer. Must not know: its callers. Invariant: an answer is a pure function of the key.
"""

import sys
from typing import Any

VALUE_PREFIX = "value-of-"
DESCRIPTION = "Look up the value of a key."
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
SERVER_COMMAND: tuple[str, ...] = (sys.executable, "-m", "bench.lookup")


def value_of(key: str) -> str:
    """The value of a key."""
    return VALUE_PREFIX + key


def serve() -> None:
    """Serve the tool until the standard input closes."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("upstream", log_level="ERROR")

    @server.tool(description=DESCRIPTION)
    async def lookup(key: str) -> str:
        return value_of(key)

    server.run("stdio")


if __name__ == "__main__":
    serve()
