"""Clients of three SDKs, connected in either era over stdio or HTTP, each with the same three verbs.

Owns: how each is made. The TypeScript SDK's runs in Node and is told what to do line by line (`typescript_client.mjs`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.types import TextContent, TextResourceContents

from tests.clients.served import Served
from tests.third_party.place import installed

BRIDGE = Path(__file__).with_name("typescript_client.mjs")
LINE = 10_000_000
VERSIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
"""What a client in each mode must come to speak."""


class PythonConnection:
    """The client of the Python SDK."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool that succeeds."""
        result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        answer: dict[str, Any] = result.structured_content
        return answer

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's error."""
        result = await self._client.call_tool(tool, arguments)
        assert result.is_error, result
        [block] = result.content
        assert isinstance(block, TextContent)
        return block.text

    async def read(self, uri: str) -> str:
        """The text of a resource."""
        [contents] = (await self._client.read_resource(uri)).contents
        assert isinstance(contents, TextResourceContents)
        return contents.text


@asynccontextmanager
async def python(target: Served | str, mode: str) -> AsyncIterator[PythonConnection]:
    """Connected with the Python SDK, to a process of its own or to a URL."""
    server = target if isinstance(target, str) else StdioServerParameters(**target.entry)
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == VERSIONS[mode]
        yield PythonConnection(client)


@dataclass(frozen=True)
class TypeScriptConnection:
    """The client of the TypeScript SDK."""

    process: Process
    answers: BufferedByteReceiveStream

    async def ask(self, **order: Any) -> Any:
        """What came of one order."""
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps(order).encode() + b"\n")
        answer = json.loads(await self.answers.receive_until(b"\n", LINE))
        assert "error" not in answer, answer["error"]
        return answer["result"]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool that succeeds."""
        result = await self.ask(do="call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        answer: dict[str, Any] = result["structuredContent"]
        return answer

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's error, which the SDK has checked like every answer."""
        result = await self.ask(do="call", name=tool, arguments=arguments)
        assert result["isError"], result
        [block] = result["content"]
        text: str = block["text"]
        return text

    async def read(self, uri: str) -> str:
        """The text of a resource."""
        [contents] = (await self.ask(do="read", uri=uri))["contents"]
        text: str = contents["text"]
        return text


@asynccontextmanager
async def typescript(target: Served | str, mode: str, major: str = "2") -> AsyncIterator[TypeScriptConnection]:
    """Connected with the TypeScript SDK, to a process of its own or to a URL."""
    [node] = installed("bin/node")
    async with await anyio.open_process([node, str(BRIDGE), major], stderr=None) as process:
        assert process.stdout is not None
        connection = TypeScriptConnection(process, BufferedByteReceiveStream(process.stdout))
        try:
            where = {"url": target} if isinstance(target, str) else target.entry
            assert await connection.ask(do="connect", mode=mode, **where) == VERSIONS[mode]
            yield connection
            await connection.ask(do="close")
        finally:
            process.kill()


def typescript_1(target: Served | str, mode: str) -> AbstractAsyncContextManager[TypeScriptConnection]:
    """The same with version 1.x of the SDK, which most clients in use are made of."""
    return typescript(target, mode, "1")
