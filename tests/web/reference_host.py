"""A host of MCP Apps: its page and its sandbox on two ports of this machine, and a view opened in them.

Owns: how the official bridge from npm becomes one script, the servers of both pages with the policy that the protocol sets
for a view without `csp`, and what a test does with an opened view. Must not know: what the view shows.
Invariant: tools are called by a client of the real MCP face, and only those that the protocol lets a view call.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import mcp.types as t
from anyio.abc import TaskGroup
from mcp.client import Client
from playwright.async_api import Frame, Page

from tests.third_party.place import SERVERS, installed
from tests.web.windows import Windows

SCRIPTS = Path(__file__).parent / "app_host"
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'"
)
"""Word for word from the specification, for a view that declares no `csp`; the frame of the view needs no `frame-src`."""
PAGE = "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><body>{body}</body></html>"
CAPABILITIES: Mapping[str, Any] = {"serverTools": {}, "openLinks": {}}
CONTEXT: Mapping[str, Any] = {
    "theme": "light",
    "displayMode": "inline",
    "availableDisplayModes": ["inline", "fullscreen"],
    "containerDimensions": {"width": 900, "maxHeight": 2000},
}


def bridge_script(folder: Path) -> str:
    """The script of the host with the bridge of npm inside."""
    (folder / "host.js").write_text((SCRIPTS / "host.js").read_text("utf-8"), "utf-8")
    (folder / "node_modules").symlink_to(SERVERS / "node_modules")
    made = [*installed("bin/node", "node_modules/.bin/rolldown"), "host.js", "--file", "made.js"]
    made += ["--platform", "browser", "--format", "iife"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True, timeout=120)
    return (folder / "made.js").read_text("utf-8")


@contextmanager
def serving(files: Mapping[str, tuple[str, str]], headers: Mapping[str, str]) -> Iterator[str]:
    """Serve texts with their types by path, on a free port; the address without a path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = files.get(self.path)
            body = (found[0] if found else "").encode()
            self.send_response(200 if found else 404)
            for name, value in {**headers, "Content-Type": found[1] if found else "text/plain"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class HostAddresses:
    """Where host and sandbox are served."""

    host: str
    sandbox: str


@contextmanager
def host_addresses(folder: Path) -> Iterator[HostAddresses]:
    """Serve a host and its sandbox, on an origin each."""
    script, html = "text/javascript; charset=utf-8", "text/html; charset=utf-8"
    host = {
        "/": (PAGE.format(title="host", body="<script src=/host.js></script>"), html),
        "/host.js": (bridge_script(folder), script),
        "/favicon.ico": ("", "image/x-icon"),
    }
    sandbox = {
        "/": (PAGE.format(title="sandbox", body="<script src=/sandbox.js></script>"), html),
        "/sandbox.js": ((SCRIPTS / "sandbox.js").read_text("utf-8"), script),
    }
    with serving(host, {}) as first, serving(sandbox, {"Content-Security-Policy": POLICY}) as second:
        yield HostAddresses(f"{first}/", f"{second}/")


@dataclass(frozen=True)
class OpenedView:
    """A view in the host."""

    page: Page
    frame: Frame

    async def host(self, method: str, *given: Any) -> Any:
        """Let the host do something."""
        return await self.page.evaluate("([method, given]) => window.host[method](...given)", [method, list(given)])

    async def heard(self, name: str) -> list[Any]:
        """What the view has said under a name, in order."""
        return [value for each, value in await self.page.evaluate("window.heard") if each == name]

    async def until(self, selector: str) -> None:
        """Wait until the view has such an element. Its policy forbids conditions in JavaScript."""
        await self.frame.wait_for_selector(selector, state="attached")

    async def until_heard(self, name: str, at_least: int = 1) -> list[Any]:
        """Wait until the view has said this so often."""
        condition = "([name, count]) => window.heard.filter(([each]) => each === name).length >= count"
        await self.page.wait_for_function(condition, arg=[name, at_least])
        return await self.heard(name)

    async def show(self, client: Client, execution: str) -> None:
        """Let the host call the tool that has this view, and give the view its input and answer."""
        given = {"execution_id": execution}
        await self.host("input", given)
        await self.host("result", _wire(await client.call_tool("get_execution_tree", given)))


@asynccontextmanager
async def opened_view(
    windows: Windows,
    addresses: HostAddresses,
    client: Client,
    *,
    capabilities: Mapping[str, Any] = CAPABILITIES,
    context: Mapping[str, Any] = CONTEXT,
) -> AsyncIterator[OpenedView]:
    """Open the view of the tree in a window of its own; the client is the one of the host."""
    by_app = {
        tool.name
        for tool in (await client.list_tools()).tools
        if "app" in ((tool.meta or {}).get("ui") or {}).get("visibility", ("model", "app"))
    }

    async with anyio.create_task_group() as calls:

        async def call_tool(params: dict[str, Any]) -> Any:
            assert params["name"] in by_app
            return await _called(calls, client, params)

        yield await _opened(windows, addresses, client, call_tool, {"capabilities": capabilities, "context": context})
        calls.cancel_scope.cancel()


async def _called(calls: TaskGroup, client: Client, params: Mapping[str, Any]) -> Any:
    """Call a tool in the group: the browser's own tasks outlive the service."""
    done = anyio.Event()
    answers: list[Any] = []

    async def call() -> None:
        try:
            answers.append(_wire(await client.call_tool(params["name"], params.get("arguments") or {})))
        finally:
            done.set()

    calls.start_soon(call, name=f"call {params['name']} for a view")
    await done.wait()
    return answers[0] if answers else None


async def _opened(
    windows: Windows,
    addresses: HostAddresses,
    client: Client,
    call_tool: Callable[[dict[str, Any]], Awaitable[Any]],
    host: Mapping[str, Any],
) -> OpenedView:
    page = await windows.open()
    await page.expose_function("callTool", call_tool)
    await page.goto(addresses.host)
    [contents] = (await client.read_resource("ui://outrider/tree")).contents
    assert isinstance(contents, t.TextResourceContents)
    opening = {"sandbox": addresses.sandbox, "html": contents.text, **host}
    await page.evaluate("(given) => window.host.open(given)", opening)
    [frame] = [frame for frame in page.frames if frame.parent_frame is not None and frame.parent_frame.parent_frame]
    return OpenedView(page, frame)


def _wire(result: t.CallToolResult) -> Any:
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)
