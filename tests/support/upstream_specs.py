"""Specs of the test servers, and open upstreams with a record of their notices.

Owns: the commands and addresses of the servers, and waiting for the end of their processes. Must not know: the subject of a
test. Invariant: every server is a real process or a real listener on loopback.
"""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio
import anyio.lowlevel
import psutil

from registry.specs.upstreams import UpstreamSpec
from runner.core.shutdown import ShelteredGroup
from runner.messages import ToolCall
from runner.tools.protocol import ToolResult
from runner.tools.secrets import Mask
from runner.tools.upstream.notices import ListedTools, UpstreamListeners, UpstreamNotice
from runner.tools.upstream.pool import UpstreamCaller, Upstreams, UpstreamTools
from tests.support.forked import FORK_SERVERS

ROOT = Path(__file__).parents[2]
_LISTENERS: set[int] = set()


def sdk(mode: str, name: str = "", **settings: Any) -> UpstreamSpec:
    """A server made with the SDK, over stdio."""
    command = (sys.executable, "-m", "tests.support.upstream_server", mode)
    return UpstreamSpec(name=name or mode, command=command, cwd=ROOT, **settings)


def raw(mode: str, name: str = "", **settings: Any) -> UpstreamSpec:
    """A server that may misbehave, over stdio."""
    command = (sys.executable, "-E", "-S", "-m", "tests.support.raw_server", mode)
    return UpstreamSpec(name=name or mode, command=command, cwd=ROOT, **settings)


class RawHttp:
    """The hostile server over HTTP: every mode has its own path."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._numbers = count()

    def spec(self, mode: str, name: str = "", **settings: Any) -> UpstreamSpec:
        """The spec of a new server in this mode."""
        return UpstreamSpec(name=name or mode, url=f"{self._origin}/{mode}/{next(self._numbers)}", **settings)

    def seen(self, spec: UpstreamSpec, below: str = "") -> list[dict[str, str]]:
        """The headers of each message that a server received, at its path or at one below it."""
        path = (spec.url or "").removeprefix(self._origin)
        with urlopen(f"{self._origin}/seen{path}{below}") as response:
            return list(json.load(response))

    @property
    def _origin(self) -> str:
        return f"http://127.0.0.1:{self._port}"


@contextmanager
def raw_http() -> Iterator[RawHttp]:
    """Run the hostile server over HTTP, in its own process: its memory and time are not measured with the test's."""
    command = [sys.executable, "-E", "-S", "-m", "tests.support.raw_server", "http"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        _LISTENERS.add(process.pid)
        try:
            yield RawHttp(int(process.stdout.readline()))
        finally:
            _LISTENERS.discard(process.pid)
            process.kill()


@contextmanager
def sdk_http(port: int = 0, mode: str = "plain") -> Iterator[int]:
    """Run a well-behaved server over HTTP; yield its port."""
    command = [sys.executable, "-m", "tests.support.upstream_server", mode, "http", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@dataclass
class Opened:
    """Open upstreams, their notices and their tool listings."""

    upstreams: Upstreams
    servers: list[str]
    notices: list[UpstreamNotice] = field(default_factory=list)
    heard: list[ListedTools] = field(default_factory=list)

    def tools(self, *servers: str, scope: str = "execution", timeout: float | None = None) -> UpstreamTools:
        """The tools of these servers; by default of all."""
        return self.upstreams.tools(servers or self.servers, UpstreamCaller(scope, timeout))

    def kinds(self) -> list[str]:
        """The kinds of the notices, in order."""
        return [notice.kind for notice in self.notices]


@asynccontextmanager
async def opened(*specs: UpstreamSpec, default_timeout: float = 10.0, secrets: Iterable[str] = ()) -> AsyncIterator[Opened]:
    """Open upstreams for these servers, in this order."""
    notices: list[UpstreamNotice] = []
    heard: list[ListedTools] = []

    async def observe(listed: ListedTools) -> None:
        heard.append(listed)

    named = {spec.name: spec for spec in specs}
    async with Upstreams(
        named,
        default_timeout=default_timeout,
        listeners=UpstreamListeners(notices.append, observe, Mask(secrets)),
        shelter=ShelteredGroup,
    ) as upstreams:
        yield Opened(upstreams, list(named), notices, heard)


async def call(tools: UpstreamTools, name: str, **arguments: Any) -> ToolResult:
    """Call a tool by the name that models see."""
    return await tools.call(ToolCall("call-1", name, arguments))


def servers_running() -> list[psutil.Process]:
    """The server processes that this test process started over stdio, orphans included."""
    aside = _LISTENERS | FORK_SERVERS
    return [process for process in psutil.Process().children(recursive=True) if process.pid not in aside]


async def none_running(seconds: float = 6.0) -> bool:
    """Wait until no server process is left; False after `seconds`."""
    return await ended(servers_running(), seconds)


async def ended(processes: list[psutil.Process], seconds: float = 6.0) -> bool:
    """Wait until these processes have ended, reaped or not; False after `seconds`."""
    with anyio.move_on_after(seconds):
        while any(map(_lives, processes)):
            await anyio.lowlevel.checkpoint()
    return not any(map(_lives, processes))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
