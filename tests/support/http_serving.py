"""A small MCP server behind the real HTTP layers on a real socket, and raw requests to it.

Owns the server's tool `whoami`, which returns the caller, and the count of its calls. Must not know: a test's expectations.
Invariant: the count shows whether a handler was reached, whatever the answer was.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from bench.big.serving import NothingBehind
from registry import load
from server.http_face.app import Building, over_http
from server.http_face.listen import Address, parse_address
from server.identity import identity_of
from server.service import Service

MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}, "_meta": META}}
CALL_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": MODERN,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "whoami",
}
TIME = 10.0


@dataclass
class Reply:
    """A response as received."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def said(self) -> Any:
        """The answer of the tool."""
        return json.loads(self.json["result"]["content"][0]["text"])


@dataclass
class Served:
    """A running server."""

    url: str
    address: Address
    calls: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    """Headers of the last call, as the tool sees them."""
    waiting: anyio.Event = field(default_factory=anyio.Event)
    """Set when a call of `wait` has begun."""

    async def raw(self, data: bytes) -> Reply:
        """Send bytes, and read until the connection is closed."""
        with anyio.fail_after(TIME):
            async with await anyio.connect_tcp(self.address.host, self.address.port) as stream:
                await stream.send(data)
                received = b""
                try:
                    while chunk := await stream.receive():
                        received += chunk
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    pass
        return _reply(received)

    async def ask(self, path: str = "/mcp", headers: Mapping[str, str] | None = None, method: str = "POST") -> Reply:
        """Call the tool, or request another path; `headers` override or extend the usual ones."""
        body = json.dumps(CALL).encode() if method == "POST" else b""
        usual = {"Host": f"127.0.0.1:{self.address.port}", **(CALL_HEADERS if body else {})}
        return await self.raw(message(method, path, {**usual, **(headers or {})}, body))


def message(method: str, path: str, headers: Mapping[str, str] | list[tuple[str, str]], body: bytes = b"") -> bytes:
    """A request as bytes."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + body


def _reply(received: bytes) -> Reply:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Reply(int(first.split()[1]) if first else 0, headers, body)


@asynccontextmanager
async def served(
    folder: Path, config: str = "", environ: Mapping[str, str] | None = None, address: str = "127.0.0.1:0"
) -> AsyncIterator[Served]:
    """Serve with a configuration in YAML."""
    file = folder / "config.yaml"
    file.write_text(config, encoding="utf-8")
    urls: list[str] = []
    ready = anyio.Event()

    def tell(url: str) -> None:
        urls.append(url)
        ready.set()

    carry = over_http(Building(load(file, {}).serve.http, environ or {}, NothingBehind()), parse_address(address), tell)
    async with anyio.create_task_group() as group:
        here = Served("", Address("", 0))
        service = Service()
        service.serve(small_server(here))
        group.start_soon(carry, service, name="serve over HTTP")
        with anyio.fail_after(TIME):
            await ready.wait()
        here.url = urls[0]
        here.address = parse_address(urls[0].removeprefix("http://").removesuffix("/mcp"))
        yield here
        group.cancel_scope.cancel()


def small_server(here: Served) -> Server[Any]:
    """An MCP server with a tool that returns the caller, and one that never returns."""

    async def list_tools(_: ServerRequestContext[Any, Any], __: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name=name, input_schema={"type": "object"}) for name in ("whoami", "wait")])

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: t.CallToolRequestParams) -> t.CallToolResult:
        here.calls += 1
        here.headers = {} if ctx.request is None else dict(ctx.request.headers)
        if params.name == "wait":
            await ctx.session.report_progress(1)
            here.waiting.set()
            await anyio.sleep_forever()
        who = identity_of(ctx.request)
        said = {"principal": who.principal, "scopes": sorted(who.scopes)}
        return t.CallToolResult(content=[t.TextContent(text=json.dumps(said))])

    async def subscribe(_: ServerRequestContext[Any, Any], __: t.SubscribeRequestParams) -> t.EmptyResult:
        return t.EmptyResult()

    async def resources(_: ServerRequestContext[Any, Any], __: t.PaginatedRequestParams | None) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=[])

    return Server(
        "small",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscribe_resource=subscribe,
        on_list_resources=resources,
    )
