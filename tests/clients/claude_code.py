"""Claude Code's own command-line client, as its Python SDK ships it, on a machine without a network.

Owns: where it is, how it is kept from the world, and what its model says. The model is scripted, yet it reports only what
it was told: it reads the answers of its tools.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.support.messages_api import Answer, MessagesApi, Received, reply, text, tool_use
from tests.third_party.place import SERVERS

TOOL = "mcp__outrider__"
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}


def program() -> Path:
    """The client; a test without it fails and says how to get it."""
    found = sorted(SERVERS.glob("lib/python*/site-packages/claude_agent_sdk/_bundled/claude"))
    if not found:
        pytest.fail("missing in `.servers`: Claude Code\nhint: run `make servers`", pytrace=False)
    return found[0]


def version(folder: Path) -> str:
    """Which one it is; `folder` is all it may write to."""
    ran = subprocess.run([program(), "--version"], env={"HOME": str(folder)}, capture_output=True, text=True, check=True)
    return ran.stdout.split()[0]


@dataclass(frozen=True)
class Conversation:
    """What a run of the client wrote: one event a line."""

    events: Sequence[Mapping[str, Any]]

    @property
    def start(self) -> Mapping[str, Any]:
        """What it found when it started: its version, its tools, the servers."""
        return next(event for event in self.events if event.get("subtype") == "init")

    @property
    def result(self) -> str:
        """Its last words."""
        words: str = self.events[-1]["result"]
        return words


async def converse(folder: Path, api: MessagesApi, server: Mapping[str, Any]) -> Conversation:
    """Give the client one prompt, with Outrider as its only server."""
    config = json.dumps({"mcpServers": {"outrider": server}})
    options = ["--bare", "--tools", "", "--strict-mcp-config", "--mcp-config", config, "--no-session-persistence"]
    output = ["--output-format", "stream-json", "--verbose", "--allowedTools", f"{TOOL}dispatch_agent,{TOOL}get_result"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "none"}
    ran = await anyio.run_process(
        [str(program()), "-p", "How many files are there?", *options, *output],
        cwd=folder,
        env=environ | QUIET,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return Conversation([json.loads(line) for line in ran.stdout.splitlines()])


def is_asked(received: Received) -> bool:
    """Whether it is this client's model that is asked, and not one of Outrider's: a server inherits the client's key."""
    return any(tool["name"].startswith(TOOL) for tool in received.body.get("tools", ()))


def answer(received: Received) -> Answer:
    """What its model says: dispatch, then fetch the result of what was dispatched, then report it."""
    told = [_told(block) for message in received.body["messages"] for block in _results(message)]
    match told:
        case []:
            return reply(tool_use(f"{TOOL}dispatch_agent", {"name": "Quick", "task": "count the files"}, "toolu_1"))
        case [started]:
            return reply(tool_use(f"{TOOL}get_result", {"execution_id": started["execution_id"]}, "toolu_2"))
    return reply(text(f"The agent says: {told[1]['result']['output']}"))


def _results(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == "tool_result"]


def _told(block: Mapping[str, Any]) -> Any:
    """The answer of a tool as this client shows it to its model: the structured form."""
    content = block["content"]
    return json.loads(content if isinstance(content, str) else content[0]["text"])
