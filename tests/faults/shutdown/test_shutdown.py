"""A service that is told to stop while many trees are at work: it ends in time, cuts nothing short, and loses nothing.

`OUTRIDER_SHUTDOWNS` is how often that is tried, then with fifty trees. `OUTRIDER_SEED` repeats a run.
"""

import os
import random
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import psutil
import pytest
from anyio.abc import Process

from tests.faults.shutdown.scene import Scene, scene
from tests.support.requirement import requirement
from tests.support.wire import MODERN, HttpWire, StdioWire, over_http, over_stdio, problem_of, request, served_over_http

RUNS = int(os.environ.get("OUTRIDER_SHUTDOWNS", "3"))
TREES = 10 if RUNS <= 3 else 50
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or secrets.randbelow(10**9)
GRACE = 25.0
AT_ONCE = 1.0 if RUNS > 3 else 3.0
"""How soon after the signal nothing new is taken, streams have ended and no model is asked: a second, or more on a machine
that runs other tests meanwhile."""
ON_THE_WAY = 0.5
"""What an answer may take on a machine that has other things to do."""


async def dispatched(wire: HttpWire | StdioWire) -> str | None:
    """The id of a tree just begun; None if it is refused because the service stops."""
    answer = await wire.call("dispatch_agent", {"name": "Lead", "task": "go"})
    if answer["result"]["isError"]:
        assert problem_of(answer)["type"] == "stopping"
        return None
    return str(answer["result"]["structuredContent"]["execution_id"])


async def wait_is_ended(client: HttpWire, tree: str, ended: anyio.Event) -> None:
    """A call that waits is told to come back later."""
    wait = {"name": "get_result", "arguments": {"execution_id": tree, "wait_seconds": 50}}
    answer = await client.post(request(1, "tools/call", wait, MODERN))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    ended.set()


async def is_turned_away(client: HttpWire) -> None:
    """Nothing is taken any more, and the health says so."""
    with anyio.fail_after(AT_ONCE):
        try:
            while (await client.http.get(client.url.replace("/mcp", "/health"))).status_code != 503:
                continue
            assert (await client.post(request(1, "tools/list", {}, MODERN))).status_code == 503
        except httpx2.TransportError:
            return  # it has gone already


class Trial:
    """One stop of a process at work."""

    def __init__(self, at_work: Scene, requests: int) -> None:
        self.at_work, self._requests = at_work, len(at_work.arrivals) + requests
        self.told: list[str] = []

    async def begin(self, wire: HttpWire | StdioWire) -> None:
        """Let trees begin, and wait until the model was asked often enough."""
        for _ in range(TREES):
            tree = await dispatched(wire)
            assert tree is not None
            self.told.append(tree)
        with anyio.fail_after(2 * TREES):
            await self.at_work.api.arrived(self._requests)

    @asynccontextmanager
    async def stop(self, process: Process) -> AsyncIterator[None]:
        """Send the signal; at the end the process must be gone, in time, and leave what it should."""
        below = psutil.Process(process.pid).children(recursive=True)
        since = anyio.current_time()
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(GRACE):
            yield
            code = await process.wait()

        assert code == 0
        assert [each for each in below if each.is_running()] == []
        assert max(self.at_work.arrivals) < since + AT_ONCE
        assert self.at_work.broken() == []
        assert self.at_work.count("model_calls") == len(self.at_work.arrivals), "an answer was cut"
        assert self.at_work.count("tool_calls where status not in ('completed', 'failed')") == 0, "a tool was cut"

    async def over_http(self) -> None:
        """With clients that wait, and clients that come."""
        async with (
            served_over_http(self.at_work.shell, **self.at_work.environ) as (process, url),
            over_http(url, MODERN) as client,
            over_http(url, MODERN) as waiting,
            anyio.create_task_group() as group,
        ):
            await self.begin(client)
            ended = anyio.Event()
            group.start_soon(wait_is_ended, waiting, self.told[-1], ended)
            await client.ask("tools/list")  # by then the other is waiting
            async with self.stop(process):
                await is_turned_away(client)
                with anyio.fail_after(AT_ONCE + ON_THE_WAY):
                    await ended.wait()

    async def over_stdio(self) -> None:
        """With the one client that started it."""
        async with over_stdio(self.at_work.shell, MODERN, **self.at_work.environ) as wire:
            await self.begin(wire)
            async with self.stop(wire.process):
                with anyio.fail_after(AT_ONCE):
                    try:
                        while (tree := await dispatched(wire)) is not None:
                            self.told.append(tree)
                    except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                        return  # it has gone already


@requirement("S2-CA-11")
@pytest.mark.timeout(120 if RUNS <= 3 else 0)
async def test_whenever_it_is_told_to_stop_it_ends_in_time_and_the_next_process_goes_on(tmp_path: Path) -> None:
    chance, told = random.Random(SEED), list[str]()
    async with scene(tmp_path) as at_work:
        for number in range(RUNS):
            trial = Trial(at_work, chance.randrange(1, TREES * 5))
            await (trial.over_stdio() if number % 2 else trial.over_http())
            told += trial.told
        left = at_work.count("executions where finished_at is null")
        async with over_stdio(at_work.shell, MODERN, **at_work.environ) as wire:
            for tree in told:
                answer = await wire.call("get_result", {"execution_id": tree, "wait_seconds": 30})
                assert answer["result"]["structuredContent"]["status"] == "completed", f"seed {SEED}"
            assert await wire.close() == 0

    assert left > 0, f"nothing was left to go on with: seed {SEED}"
    assert at_work.broken() == []
    rows = at_work.count("executions where parent_execution_id is null and status = 'completed'")
    assert rows == len(told) == at_work.count("executions where agent = 'Lead'")
    assert at_work.count("executions where agent = 'Worker'") == 2 * len(told)
    assert at_work.marks == 2 * len(told), "each tool has run once"


async def test_what_does_not_end_within_the_grace_is_left_to_the_next_process(tmp_path: Path) -> None:
    async with (
        scene(tmp_path, "shutdown_grace: 6s", hanging=True) as at_work,
        over_stdio(at_work.shell, MODERN, **at_work.environ) as wire,
    ):
        await dispatched(wire)
        with anyio.fail_after(10):
            await at_work.api.arrived(1)
        with anyio.fail_after(6 + ON_THE_WAY):
            wire.process.send_signal(signal.SIGTERM)
            assert await wire.process.wait() == 0

    assert at_work.broken() == []
    assert at_work.count("executions where status = 'running'") == 1


async def test_a_second_signal_is_quick(tmp_path: Path) -> None:
    async with scene(tmp_path, hanging=True) as at_work, over_stdio(at_work.shell, MODERN, **at_work.environ) as wire:
        await dispatched(wire)
        with anyio.fail_after(10):
            await at_work.api.arrived(1)
        wire.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(AT_ONCE):
            while await dispatched(wire) is not None:
                continue
        with anyio.fail_after(2 + ON_THE_WAY):
            wire.process.send_signal(signal.SIGTERM)
            code = await wire.process.wait()

    assert at_work.broken() == [] if code == 0 else code == 130
    assert at_work.count("executions where status = 'running'") > 0
