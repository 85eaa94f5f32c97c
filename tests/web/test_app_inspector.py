"""The MCP App of the tree on the Apps page of the official Inspector, offline."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest

from tests.support.served_shell import free_port
from tests.support.shell import make_shell
from tests.support.wire import MODERN, over_http, served_over_http
from tests.third_party.place import SERVERS, installed
from tests.web.windows import Windows

SECONDS = 60


@asynccontextmanager
async def inspector(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """The Inspector's page on this machine; its address and its token."""
    port, token = free_port(), secrets.token_hex(24)
    environ = {
        "PATH": f"{SERVERS / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "HOST": "127.0.0.1",
        "CLIENT_PORT": str(port),
        "MCP_SANDBOX_PORT": str(free_port()),
        "MCP_APP_ORIGIN_PORT": str(free_port()),
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_API_TOKEN": token,
        "MCP_INSPECTOR_SECRET_STORE": "memory",
        "MCP_STORAGE_DIR": str(folder / "storage"),
    }
    command = [*installed("bin/node", "node_modules/.bin/mcp-inspector"), "--web"]
    process = await anyio.open_process(command, env=environ, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(SECONDS):
            while b"Sandbox" not in said:
                said += await process.stdout.receive()
        yield f"http://127.0.0.1:{port}/", token
    finally:
        process.terminate()
        with anyio.CancelScope(shield=True):
            await process.wait()
            await process.aclose()


def link(page: str, token: str, server: str, execution: str) -> str:
    """The address that connects, and selects the tool with its argument; opening it takes a click."""
    given = base64.urlsafe_b64encode(json.dumps({"execution_id": execution}).encode()).decode().rstrip("=")
    asked = {"serverUrl": server, "transport": "http", "autoConnect": token, "openApp": "get_execution_tree"}
    return f"{page}?{urlencode({**asked, 'appArgs': given})}"


@pytest.mark.timeout(180)
async def test_the_inspector_renders_the_tree(tmp_path: Path, windows: Windows) -> None:
    shell = make_shell(tmp_path)
    windows.allow("fonts.googleapis.com")  # its own page asks for fonts, and there is no network
    async with (
        served_over_http(shell) as (_, server),
        over_http(server, MODERN) as wire,
        inspector(tmp_path) as (address, token),
    ):
        ran = await wire.call("run_agent", {"name": "Quick", "task": "look", "wait_seconds": 20})
        execution = ran["result"]["structuredContent"]["execution_id"]
        page = await windows.open()
        page.set_default_timeout(SECONDS * 1000)
        await page.goto(link(address, token, server, execution))
        await page.wait_for_selector('[data-testid="connection-status"][data-status="connected"]')
        await page.click('[data-testid="open-app"]')
        view = page.frame_locator("iframe").frame_locator("iframe")
        await view.locator(f'[data-execution="{execution}"][data-status="completed"]').first.wait_for(state="attached")
        await view.locator("[data-action=answer]").click()
        shown = await view.locator("#app").inner_text()
        await page.close()  # before its server ends

    assert "Quick" in shown
    assert "Finding" in shown
