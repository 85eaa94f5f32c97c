"""Specs of the test servers, and upstreams that are entered and watched.

Owns: how a test names a server and waits for processes to be gone. Must not know: what is tested with them.
Invariant: every server is a real process or a real listener on loopback.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import psutil

from registry.upstreams import UpstreamSpec
from runner.tools.protocol import ToolResult
from runner.tools.upstream import UpstreamNotice
from runner.tools.upstreams import Upstreams, UpstreamTools
from runner.transcript import ToolCall

ROOT = Path(__file__).parents[2]


def sdk(mode: str, name: str = "", **settings: Any) -> UpstreamSpec:
    """A server made with the SDK, over stdio."""
    command = (sys.executable, "-m", "tests.support.upstream_server", mode)
    return UpstreamSpec(name=name or mode, command=command, cwd=ROOT, **settings)


def raw(mode: str, name: str = "", **settings: Any) -> UpstreamSpec:
    """A server that may misbehave, over stdio."""
    command = (sys.executable, "-I", "-S", str(ROOT / "tests/support/raw_server.py"), mode)
    return UpstreamSpec(name=name or mode, command=command, **settings)


@dataclass
class Opened:
    """Entered upstreams and what they told."""

    upstreams: Upstreams
    servers: list[str]
    notices: list[UpstreamNotice] = field(default_factory=list)

    def tools(self, *servers: str, scope: str = "execution", timeout: float | None = None) -> UpstreamTools:
        """The tools of these servers, or of all."""
        return self.upstreams.tools(servers or self.servers, scope, timeout)

    def kinds(self) -> list[str]:
        """What was told, by kind."""
        return [notice.kind for notice in self.notices]


@asynccontextmanager
async def opened(*specs: UpstreamSpec, default_timeout: float = 10.0) -> AsyncIterator[Opened]:
    """Enter upstreams for these servers, in this order."""
    notices: list[UpstreamNotice] = []
    named = {spec.name: spec for spec in specs}
    async with Upstreams(named, default_timeout=default_timeout, notify=notices.append) as upstreams:
        yield Opened(upstreams, list(named), notices)


async def call(tools: UpstreamTools, name: str, **arguments: Any) -> ToolResult:
    """Call a tool by its sent name."""
    return await tools.call(ToolCall("call-1", name, arguments))


def servers_running() -> list[psutil.Process]:
    """The server processes of this test process, whatever became of their parents."""
    return psutil.Process().children(recursive=True)


async def none_running(seconds: float = 6.0) -> bool:
    """Wait until no server process is left, and say whether that came to be."""
    return await ended(servers_running(), seconds)


async def ended(processes: list[psutil.Process], seconds: float = 6.0) -> bool:
    """Wait until these processes have ended, reaped or not, and say whether they did."""
    with anyio.move_on_after(seconds):
        while any(map(_lives, processes)):
            await anyio.lowlevel.checkpoint()
    return not any(map(_lives, processes))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
