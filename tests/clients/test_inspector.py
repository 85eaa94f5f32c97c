"""The official inspector's command line lists and calls the tools, over stdio and HTTP, in both eras."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.clients.served import Served, serve
from tests.clients.stage import stage
from tests.third_party.place import installed

SECONDS = 50
ERAS = ("modern", "legacy")
TOOLS = {
    "list_agents",
    "dispatch_agent",
    "get_result",
    "wait_for",
    "cancel_agent",
    "send_message",
    "read_result",
    "list_executions",
    "get_execution_tree",
    "query_executions",
}


async def inspect(target: Path, served: Served, *words: str) -> Any:
    """What the inspector prints about a server of its configuration."""
    programs = installed("bin/node", "node_modules/.bin/mcp-inspector")
    command = [*programs, "--cli", "--config", str(target), "--server", "outrider", *words, "--format", "json", "-q"]
    ran = await anyio.run_process(command, check=False, env={**served.environ, "MCP_INSPECTOR_SECRET_STORE": "memory"})
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout)["result"]


async def look_and_run(target: Path, served: Served, play: str, era: str) -> None:
    """List the tools, held against what the inspector knows of good schemas, and have an agent work."""
    found = await inspect(target, served, "--protocol-era", era, "--method", "tools/list", "--strict")
    assert {tool["name"] for tool in found["tools"]} >= TOOLS

    arguments = {"name": "Quick", "task": f"Quick: count, {play}"}
    call = ["--method", "tools/call", "--tool-name", "run_agent", "--tool-args-json", json.dumps(arguments)]
    answered = await inspect(target, served, "--protocol-era", era, *call)
    assert answered["structuredContent"]["result"]["output"] == "42 files"


def configured(folder: Path, entry: dict[str, Any]) -> Path:
    """The inspector's configuration."""
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"outrider": entry}}), encoding="utf-8")
    return file


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_the_inspector_lists_and_calls_the_tools(tmp_path: Path, over: str) -> None:
    with anyio.fail_after(SECONDS):
        async with stage() as opened:
            opened.play("inspected")
            served = serve(tmp_path, opened.config)
            if over == "stdio":
                program, *arguments = served.command
                target = configured(tmp_path, {"command": program, "args": arguments, "env": served.environ})
                for era in ERAS:
                    await look_and_run(target, served, "inspected", era)
            else:
                async with served.over_http() as url:
                    target = configured(tmp_path, {"type": "streamable-http", "url": url})
                    for era in ERAS:
                        await look_and_run(target, served, "inspected", era)
