"""A client of the real MCP face of a real service; only the model's answers are scripted.

Owns: connecting client, face and service, and calls that return structured answers.
Must not know: the subject of a test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp.types as t
from mcp.client import Client

from registry import AgentSpec
from runner.tools.protocol import ToolExecutor
from server.mcp_face.calls import ERROR
from server.mcp_face.server import mcp_server
from server.mcp_face.updates import Updates
from server.service import Service
from tests.support.models import ScriptedModel
from tests.support.service import Bench, bench


@dataclass(frozen=True)
class Caller:
    """An SDK client that validates every answer against the tool's output schema."""

    client: Client
    schemas: Mapping[str, Mapping[str, Any]]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that succeeds; returns its structured answer."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        answer: dict[str, Any] = result.structured_content
        jsonschema.Draft202012Validator(self.schemas[tool]).validate(answer)
        assert tool == "query_executions" or not list(nulls(answer)), answer
        return answer

    async def refused(self, tool: str, **arguments: Any) -> dict[str, str]:
        """Call a tool that refuses; returns its error."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        assert result.structured_content is None
        problem: dict[str, str] = (result.meta or {})[ERROR]
        assert problem["message"]
        assert problem["hint"]
        for_user = f"\nanswer: {problem['answer']}" if "answer" in problem else ""
        assert text_of(result) == f"error: {problem['message']}\nhint: {problem['hint']}{for_user}"
        return problem


THEIRS = frozenset({"arguments", "artifacts", "input_schema"})
"""Fields with values of agents and configurations, which may be null."""


def nulls(value: Any, name: str = "") -> Iterator[str]:
    """The paths of nulls in an answer: a field without a value must be absent."""
    if value is None:
        yield name
    elif isinstance(value, list):
        yield from (found for each in value for found in nulls(each, name))
    elif isinstance(value, dict):
        yield from (found for key, each in value.items() if key not in THEIRS for found in nulls(each, f"{name}.{key}"))


def text_of(result: t.CallToolResult) -> str:
    """The text that a model reads."""
    [block] = result.content
    assert isinstance(block, t.TextContent)
    return block.text


@dataclass(frozen=True)
class Face:
    """A service with its MCP face."""

    bench: Bench
    service: Service
    updates: Updates

    @property
    def model(self) -> ScriptedModel:
        return self.bench.model

    @asynccontextmanager
    async def client(self, mode: str = "auto", *, within: float = 20, **more: Any) -> AsyncIterator[Caller]:
        """Connect a client of one era: `auto` (modern) or `legacy`."""
        server = mcp_server(self.service, self.updates)
        with anyio.fail_after(within):
            async with Client(server, mode=mode, **more) as client:
                listed = (await client.list_tools()).tools
                yield Caller(client, {tool.name: tool.output_schema or {} for tool in listed})


@asynccontextmanager
async def face(
    folder: Path,
    config: str,
    scripts: Mapping[str, Any],
    extra_tools: Sequence[Callable[[AgentSpec], ToolExecutor]] = (),
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Face]:
    """A face with a service, scripted models and a fresh database."""
    async with bench(folder, config, scripts, extra_tools, environ) as opened, anyio.create_task_group() as group:
        made = Face(opened, Service(), Updates())
        made.service.open(opened.dispatcher)
        group.start_soon(made.updates.run, opened.dispatcher, name="updates")
        yield made
        group.cancel_scope.cancel()
