"""A small MCP server for tests: `python -m tests.support.upstream_server MODE [http PORT]`.

Owns: well-behaved tools and odd listings. Hostile behaviour is in `raw_server`, which needs no SDK and starts at once.
Must not know: Outrider. Invariant: over HTTP the first line of output is its port.
"""

import atexit
import gc
import inspect
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyio
import mcp.types as t
import uvicorn
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

SLOW_STARTED = anyio.Event()
SLOW_CANCELLED = anyio.Event()

NAMES = {
    "odd": ["b__c", "b.c", "b_c", "with space", "with/space", "x" * 200, "x" * 199 + "y", "_led", "dispatch_agent"],
    "duplicates": ["echo", "twin", "twin", "pid"],
    "paged": [f"tool_{number:02}" for number in range(25)],
    "endless_pages": [f"tool_{number:02}" for number in range(5)],
    "growing": ["grow"],
    "meta": ["poke"],
}


async def slow(_: dict[str, Any]) -> None:
    """Run until cancelled; the start and the cancellation each set an event."""
    SLOW_STARTED.set()
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        SLOW_CANCELLED.set()
        raise


async def started(_: dict[str, Any]) -> t.CallToolResult:
    """Answer once a call of `slow` runs."""
    await SLOW_STARTED.wait()
    return text("started")


async def cancelled(_: dict[str, Any]) -> t.CallToolResult:
    """Answer once a call of `slow` was cancelled."""
    await SLOW_CANCELLED.wait()
    return text("cancelled")


def die(_: dict[str, Any]) -> None:
    """Exit during a call, with lines on standard error."""
    sys.stderr.write("starting up\nout of cheese\n")
    sys.stderr.flush()
    os._exit(3)


def breed(_: dict[str, Any]) -> t.CallToolResult:
    """Start a grandchild that outlives the test unless it is killed."""
    return text(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid)


def refuse(_: dict[str, Any]) -> None:
    """Answer with a protocol error."""
    raise MCPError(t.INVALID_PARAMS, "value must be a colour")


def media(_: dict[str, Any]) -> t.CallToolResult:
    """Answer with one block of each kind."""
    return t.CallToolResult(
        content=[
            t.TextContent(text="a picture:"),
            t.ImageContent(data="AAAA" * 4000, mime_type="image/png"),
            t.ResourceLink(name="runbook", uri="https://example.org/runbook"),
            t.EmbeddedResource(resource=t.TextResourceContents(uri="file:///log", text="line one")),
        ]
    )


def structured(_: dict[str, Any]) -> t.CallToolResult:
    """Answer with structured content alone."""
    return t.CallToolResult(content=[], structured_content={"rows": [1, 2], "nul": "a\x00b"})


def ask(_: dict[str, Any]) -> t.InputRequiredResult:
    """Answer with an elicitation."""
    form = t.ElicitRequestFormParams(message="sure?", requested_schema={"type": "object", "properties": {}})
    return t.InputRequiredResult(input_requests={"sure": t.ElicitRequest(params=form)})


def text(value: object, *, is_error: bool = False) -> t.CallToolResult:
    """A result with one text block."""
    words = value if isinstance(value, str) else json.dumps(value)
    return t.CallToolResult(content=[t.TextContent(text=words)], is_error=is_error)


PLAIN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "echo": lambda arguments: text({"tool": "echo", "arguments": arguments}),
    "pid": lambda _: text(os.getpid()),
    "slow": slow,
    "started": started,
    "cancelled": cancelled,
    "big": lambda arguments: text("é" * int(arguments["value"])),
    "error": lambda _: text("the disk is full", is_error=True),
    "refuse": refuse,
    "media": media,
    "structured": structured,
    "die": die,
    "breed": breed,
    "ask": ask,
}


HINTS = {
    "die": t.ToolAnnotations(destructive_hint=True),
    "refuse": t.ToolAnnotations(destructive_hint=True),
    "breed": t.ToolAnnotations(idempotent_hint=True, destructive_hint=False),
}


def tool(name: str) -> t.Tool:
    """A tool whose annotations claim that it is read-only, unless `HINTS` has others."""
    schema = {"type": "object", "properties": {"value": {}}}
    hints = HINTS.get(name, t.ToolAnnotations(read_only_hint=True))
    return t.Tool(name=name, description=f"The tool {name}.", input_schema=schema, annotations=hints)


def build(mode: str) -> Server[Any]:
    names = list(NAMES.get(mode, PLAIN))
    bus = InMemorySubscriptionBus()

    async def on_list_tools(_: Any, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        if mode not in ("paged", "endless_pages"):
            return t.ListToolsResult(tools=[tool(name) for name in names])
        start = int(params.cursor) if params and params.cursor else 0
        more = start + 10 < len(names) or mode == "endless_pages"
        shown = [tool(name) for name in names[start : start + 10]]
        return t.ListToolsResult(tools=shown, next_cursor=str(start + 10) if more else None)

    async def on_call_tool(_: Any, params: t.CallToolRequestParams) -> t.CallToolResult | t.InputRequiredResult:
        arguments = params.arguments or {}
        if params.name == "grow":
            names.append("grown")
            await bus.publish(ToolsListChanged())
        if mode == "meta":
            return text(dict(params.meta or {}))
        if mode != "plain":
            return text({"tool": params.name, "arguments": arguments})
        answer: Any = PLAIN[params.name](arguments)
        result: t.CallToolResult | t.InputRequiredResult = await answer if inspect.isawaitable(answer) else answer
        return result

    instructions = "Ask for logs first. " + "x" * 5000
    return Server(
        "upstream",
        instructions=instructions,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
        on_subscriptions_listen=ListenHandler(bus) if mode == "growing" else None,
    )


async def serve_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(server: Server[Any], port: int) -> None:
    """Serve streamable HTTP on loopback."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    config = uvicorn.Config(server.streamable_http_app(), log_level="error", timeout_graceful_shutdown=1)
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    mode, *http = sys.argv[1:]
    atexit.register(gc.freeze)  # for a quick exit: tests wait for it
    if http:
        anyio.run(serve_http, build(mode), int(http[1]))
    else:
        anyio.run(serve_stdio, build(mode))


if __name__ == "__main__":
    main()
