"""A served process with trees at work before a model on a real socket, and a crowd that listens to them.

Owns: the process, the work, the orders to the crowd and what it heard. Must not know: which figures are good ones.
Invariant: the service, the model, its tools and the listeners are four processes; the service is the one that users start.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import psutil
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from bench.contestant import DELEGATE, ENVIRONMENT
from bench.lookup import SERVER_COMMAND
from bench.processes import fake_model
from bench.service import configuration, worker
from tests.faults.listeners.account import EVENTS, Account, Heard
from tests.support.api_serving import MARK
from tests.support.shell import Shell
from tests.support.sources import ROOT
from tests.support.wire import served_over_http

WORKERS = 5
LATENCY = 1.0
"""Seconds in which the model answers."""
UPSTREAM = {"command": list(SERVER_COMMAND), "cwd": str(ROOT), "effects": {"lookup": "read_only"}}
LIMITS = {"timeout": "600s", "agent_timeout": "600s", "max_concurrent_roots": 500, "max_iterations": 1000}
PATIENCE = 300.0


class Crowd:
    """The listeners in their process."""

    def __init__(self, process: Process, folder: Path) -> None:
        assert process.stdout is not None
        self._process, self._lines, self._file = process, BufferedByteReceiveStream(process.stdout), folder / "heard"
        self._reads: list[bool] = []

    async def order(self, **order: Any) -> dict[str, Any]:
        """Give an order; the answer, once it is carried out."""
        assert self._process.stdin is not None
        await self._process.stdin.send(json.dumps(order).encode() + b"\n")
        with anyio.fail_after(PATIENCE):
            told: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", 4096))
        return told

    async def listen(self, wanted: Sequence[tuple[str, bool]]) -> None:
        """Open streams by their paths; returns when all have caught up. Those that do not read stop then."""
        self._reads += [reads for _, reads in wanted]
        await self.order(open=wanted)

    async def heard(self) -> list[Heard]:
        """What each has heard of until now, in the order of opening."""
        await self.order(write=str(self._file))
        return await anyio.to_thread.run_sync(self._read)

    def _read(self) -> list[Heard]:
        found = []
        with self._file.open("rb") as file:
            for (path, cuts, events, times), reads in zip(json.loads(file.readline()), self._reads, strict=True):
                numbers, moments, counts = array("q"), array("d"), array("q")
                for kept, size in ((numbers, events), (moments, times), (counts, times)):
                    kept.frombytes(file.read(size * kept.itemsize))
                found.append(Heard(path, reads, cuts, numbers, moments, counts))
        return found

    async def dropped(self, count: int, seconds: float) -> bool:
        """Wait until that many of those that do not read are cut off; whether they are in time."""
        with anyio.move_on_after(seconds):
            while (await self.order(dropped=0))["dropped"] < count:
                with anyio.move_on_after(0.05):
                    await anyio.sleep_forever()
            return True
        return False

    async def close(self) -> None:
        """End all connections."""
        await self.order(close=0)
        self._reads.clear()


@asynccontextmanager
async def crowd(url: str, folder: Path) -> AsyncIterator[Crowd]:
    """A crowd for a server."""
    host, _, port = url.removeprefix("http://").partition(":")
    command = [sys.executable, "-m", "tests.faults.listeners.crowd", host, port]
    async with await anyio.open_process(command, cwd=ROOT, stderr=None) as process:
        try:
            yield Crowd(process, folder)
        finally:
            with suppress(ProcessLookupError):
                process.kill()


@dataclass(frozen=True)
class AtWork:
    """A served process and its database."""

    shell: Shell
    process: Process
    url: str
    http: httpx2.AsyncClient

    @property
    def server(self) -> psutil.Process:
        """The process of the service."""
        return psutil.Process(self.process.pid)

    @property
    def cpu(self) -> float:
        """The processor time of the service until now, in seconds."""
        times = self.server.cpu_times()
        return float(times.user + times.system)

    async def start(self, trees: int, turns: int) -> list[str]:
        """Start trees of workers; their ids."""
        task = f"FANOUT n={WORKERS} turns={turns} {DELEGATE}"
        roots = []
        for _ in range(trees):
            answer = await self.http.post("/api/executions", json={"name": "supervisor", "task": task}, headers=MARK)
            assert answer.status_code == 201, answer.text
            roots.append(str(answer.json()["execution_id"]))
        return roots

    async def workers(self, roots: Sequence[str]) -> list[str]:
        """The executions below trees, once there are all."""
        query = f"select id from executions where depth = 1 and root_execution_id in ({', '.join('?' * len(roots))})"
        return [row["id"] for row in await self.rows(query, roots, lambda rows: len(rows) == len(roots) * WORKERS)]

    async def ended(self, roots: Sequence[str]) -> None:
        """Wait until trees have ended."""
        query = f"select id from executions where finished_at is null and id in ({', '.join('?' * len(roots))})"
        await self.rows(query, roots, lambda rows: not rows)

    async def account(self) -> Account:
        """All events until now."""
        return Account(await anyio.to_thread.run_sync(self.shell.rows, EVENTS))

    async def rows(self, query: str, given: Sequence[str], holds: Callable[[Any], bool]) -> list[dict[str, Any]]:
        """Ask until the rows are as they should be."""
        with anyio.fail_after(PATIENCE):
            while True:
                rows = await anyio.to_thread.run_sync(self.shell.rows, query, *given)
                if holds(rows):
                    return rows
                with anyio.move_on_after(0.1):
                    await self.process.wait()


@asynccontextmanager
async def at_work(folder: Path, latency: float = LATENCY) -> AsyncIterator[AtWork]:
    """A service, the model and the tool server of its agents."""
    with fake_model("--latency-ms", str(latency * 1000)) as model:
        agents: Mapping[str, Any] = {
            "supervisor": {"description": "delegates", "custom_instructions": "You delegate.", "sub_agents": ["worker"]},
            "worker": worker(mcp_servers=["upstream"]),
        }
        config = configuration(model.url, agents, defaults={"limits": LIMITS}, mcp_servers={"upstream": UPSTREAM})
        folder.joinpath("config.yaml").write_text(json.dumps(config), encoding="utf-8")
        shell = Shell(folder)
        async with served_over_http(shell, **ENVIRONMENT) as (process, url):
            base = url.removesuffix("/mcp")
            async with httpx2.AsyncClient(base_url=base, timeout=PATIENCE) as http:
                yield AtWork(shell, process, base, http)
