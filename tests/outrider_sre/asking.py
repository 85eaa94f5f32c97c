"""Asking an MCP server in a test: over a real stdio process, or in process, and reading structured answers."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent


@asynccontextmanager
async def started(module: str, incident: Path | None = None, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of `python -P -m MODULE`, on the packaged incident or on another, in either era of the protocol."""
    environment = {"SRE_INCIDENT": str(incident) if incident else ""}
    parameters = StdioServerParameters(command=sys.executable, args=["-P", "-m", module], env=environment)
    async with Client(parameters, mode=mode, read_timeout_seconds=30) as client:
        yield client


async def ask(asked: Client | MCPServer[Any], tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool; an error fails the test with its text."""
    result = await _call(asked, tool, arguments)
    assert not result.is_error, _text(result)
    answer: dict[str, Any] | None = result.structured_content
    assert answer is not None
    return answer


async def refused(asked: Client | MCPServer[Any], tool: str, **arguments: Any) -> str:
    """The text with which a tool refuses."""
    result = await _call(asked, tool, arguments)
    assert result.is_error, "the call was expected to be refused"
    return _text(result)


async def _call(asked: Client | MCPServer[Any], tool: str, arguments: dict[str, Any]) -> CallToolResult:
    if isinstance(asked, Client):
        return await asked.call_tool(tool, arguments)

    async with Client(asked) as client:
        return await client.call_tool(tool, arguments)


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))
