"""Time from a dispatch to its id: the row of the execution is committed by then, so it survives a crash.

Owns the two ways to dispatch: the dispatcher in this process, and `dispatch_agent` of `outrider serve` over stdio.
Must not know: tables. Invariant: an execution has ended before the next dispatch, or all of a burst before the next burst,
so that a figure is that of dispatches and of nothing older.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from bench.contestant import ENVIRONMENT
from bench.handshake import HELLO
from bench.processes import ROOT, fake_model
from bench.service import Series, configuration, service, worker, written
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order

BURST = 50
TASK = "WORK id=0 turns=0"
"""One model call, which the fake model answers at once."""


async def in_process(n: int) -> Sequence[Series]:
    """Dispatches through the dispatcher, one after the other and in bursts."""
    with fake_model() as model:
        async with service(configuration(model.url, {"worker": worker()})) as dispatcher:
            await _burst(dispatcher, 2)  # the first ones import and connect
            single = [seconds for _ in range(n) for seconds in await _burst(dispatcher, 1)]
            bursts = [seconds for _ in range(n // BURST) for seconds in await _burst(dispatcher, BURST)]
    measured = [Series("in process, one after the other", single)]
    return [*measured, Series(f"in process, {BURST} at once", bursts)] if bursts else measured


async def _burst(dispatcher: Dispatcher, size: int) -> Sequence[float]:
    """The seconds of dispatches that start together; returns when their executions have ended."""
    seconds: list[float] = []
    started: list[str] = []

    async def dispatch() -> None:
        began = time.perf_counter()
        child = await dispatcher.start(Order("worker", TASK))
        seconds.append(time.perf_counter() - began)
        started.append(child.id)

    async with anyio.create_task_group() as group:
        for _ in range(size):
            group.start_soon(dispatch)
    for execution in started:
        await dispatcher.wait(execution)
    return seconds


def over_stdio(n: int) -> Sequence[Series]:
    """Dispatches of an MCP client, from the request on the pipe to the answer."""
    with fake_model() as model, TemporaryDirectory(prefix="bench-") as folder:
        config = written(configuration(model.url, {"worker": worker()}), Path(folder))
        with _Client(config, Path(folder, "bench.db")) as client:
            client.burst(2)
            single = [seconds for _ in range(n) for seconds in client.burst(1)]
            bursts = [seconds for _ in range(n // BURST) for seconds in client.burst(BURST)]
    measured = [Series("over MCP stdio, one after the other", single)]
    return [*measured, Series(f"over MCP stdio, {BURST} at once", bursts)] if bursts else measured


class _Client:
    """A client of `outrider serve` that reads and writes lines, so that its own cost is small."""

    def __init__(self, config: Path, database: Path) -> None:
        command = [sys.executable, "-m", "outrider", "serve", "--config", str(config), "--db", str(database)]
        environment = {**os.environ, **ENVIRONMENT}
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment
        )
        self._last = 0
        self._arrived: dict[int, tuple[dict[str, Any], float]] = {}

    def __enter__(self) -> _Client:
        self._answer(self._ask("initialize", HELLO))
        self._write({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        with self._server:  # closes its input, which ends it, and waits
            pass

    def burst(self, size: int) -> Sequence[float]:
        """The seconds of dispatches that are sent together; returns when their executions have ended."""
        began: dict[int, float] = {}
        for _ in range(size):
            at = time.perf_counter()
            began[self._call("dispatch_agent", {"name": "worker", "task": TASK})] = at
        seconds, started = [], []
        for number in began:
            answer, arrived = self._answer(number)
            seconds.append(arrived - began[number])
            started.append(answer["structuredContent"]["execution_id"])
        for execution in started:
            ended, _ = self._answer(self._call("get_result", {"execution_id": execution, "wait_seconds": 20}))
            if ended["structuredContent"]["status"] != "completed":
                raise SystemExit(f"error: an execution did not complete: {ended}")
        return seconds

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> int:
        return self._ask("tools/call", {"name": tool, "arguments": arguments})

    def _ask(self, method: str, params: Mapping[str, Any]) -> int:
        self._last += 1
        self._write({"id": self._last, "method": method, "params": params})
        return self._last

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._server.stdin.flush()

    def _answer(self, number: int) -> tuple[dict[str, Any], float]:
        """The result of a request, and when it arrived; answers of a burst may arrive in any order."""
        while number not in self._arrived:
            assert self._server.stdout is not None
            line = self._server.stdout.readline()
            arrived = time.perf_counter()
            if not line:
                raise SystemExit("error: the server ended before it answered")
            said = json.loads(line)
            if "error" in said:
                raise SystemExit(f"error: {said}")
            if "id" in said and "result" in said:
                self._arrived[said["id"]] = said["result"], arrived
        return self._arrived.pop(number)
