"""The official inspector's command line lists and calls the tools, over stdio and HTTP, in both eras.

Two versions of it: the newest, and the one that `npx` picks on Node 20. Since 0.16 it requires Node 22, so `npx` falls back
to 0.15.0, which is made of version 1 of the TypeScript SDK.
"""

import json
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.clients.served import Served, serve_rehearsed
from tests.server.mcp_face.test_tools import TOOLS
from tests.third_party.place import SERVERS, installed

SECONDS = 50
ERAS = ("modern", "legacy")


async def inspect(target: Path, served: Served, *words: str) -> Any:
    """What the inspector prints about a server of its configuration."""
    programs = installed("bin/node", "node_modules/.bin/mcp-inspector")
    command = [*programs, "--cli", "--config", str(target), "--server", "outrider", *words, "--format", "json", "-q"]
    ran = await anyio.run_process(command, check=False, env={**served.environ, "MCP_INSPECTOR_SECRET_STORE": "memory"})
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout)["result"]


async def look_and_run(target: Path, served: Served, era: str) -> str:
    """List the tools, held against what the inspector knows of good schemas, and have an agent work; what it answered."""
    found = await inspect(target, served, "--protocol-era", era, "--method", "tools/list", "--strict")
    assert [tool["name"] for tool in found["tools"]] == [name for name in TOOLS if name != "run_chain"]  # there is no chain

    call = ["--method", "tools/call", "--tool-name", "run_agent", "--tool-arg", "name=Quick", "task=count"]
    answered = await inspect(target, served, "--protocol-era", era, *call)
    # In the newer era it declares tasks: its call became one, which it followed to the end.
    assert answered["structuredContent"].get("note") == ("It has ended." if era == "modern" else None)
    output: str = answered["structuredContent"]["result"]["output"]
    return output


def configured(folder: Path, entry: Mapping[str, Any]) -> Path:
    """The inspector's configuration."""
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"outrider": entry}}), encoding="utf-8")
    return file


@pytest.mark.parametrize("era", ERAS)
async def test_the_inspector_lists_and_calls_the_tools_over_stdio(tmp_path: Path, era: str) -> None:
    served = serve_rehearsed(tmp_path)
    with anyio.fail_after(SECONDS):
        assert await look_and_run(configured(tmp_path, served.entry), served, era) == "42 files"


async def test_the_inspector_lists_and_calls_the_tools_over_http(tmp_path: Path) -> None:
    served = serve_rehearsed(tmp_path)
    with anyio.fail_after(SECONDS):
        async with served.over_http() as url:
            target = configured(tmp_path, {"type": "streamable-http", "url": url})
            assert [await look_and_run(target, served, era) for era in ERAS] == ["42 files"] * len(ERAS)


async def inspect_on_node_20(*words: str, served: Served) -> Any:
    """What the inspector of Node 20 prints: whatever it cannot read, it says on standard error and exits with 1."""
    programs = installed("bin/node", "node_modules/.bin/mcp-inspector-cli")
    path = f"{SERVERS / 'bin'}{os.pathsep}{os.environ['PATH']}"  # it starts itself once more, as `node`
    ran = await anyio.run_process([*programs, "--cli", *words], check=False, env={**served.environ, "PATH": path})
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_inspector_of_node_20_reads_answers_and_errors(tmp_path: Path, transport: str) -> None:
    served = serve_rehearsed(tmp_path)
    with anyio.fail_after(SECONDS):
        async with AsyncExitStack() as stack:
            if transport == "http":
                target = [await stack.enter_async_context(served.over_http())]
            else:
                target = ["--config", str(configured(tmp_path, served.entry)), "--server", "outrider"]
            listed = await inspect_on_node_20(*target, "--method", "tools/list", served=served)
            call = [*target, "--method", "tools/call", "--tool-name"]
            done = await inspect_on_node_20(*call, "run_agent", "--tool-arg", "name=Quick", "task=count", served=served)
            refused = await inspect_on_node_20(*call, "get_result", "--tool-arg", "execution_id=nobody", served=served)

    assert "get_result" in [tool["name"] for tool in listed["tools"]]
    assert done["structuredContent"]["result"]["output"] == "42 files"
    assert refused["isError"]
    assert refused["content"][0]["text"].startswith(
        "error: you have not dispatched an execution `nobody`\n  configuration: "
    )
