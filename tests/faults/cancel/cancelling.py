"""A tree of many running executions is cancelled, and every bound of that promise is measured from outside.

Owns: the tree, the moments that are timed and what must be true at each. Must not know: what is made of the figures.
Invariant: times are real ones, of a real service whose model calls hang on real sockets to another process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.faults.crash.history import INVARIANTS, History
from tests.faults.crash.scene import rows_of
from tests.support.service import settings_of

CONFIG = """
defaults:
  model: Lead
  limits: {max_concurrent_agents: 2000, max_dispatches: 100000, max_iterations: 100000}
models: {Lead: {model: Lead}, Captain: {model: Captain}, Leaf: {model: Leaf}, Busy: {model: Busy}, Quick: {model: Quick}}
agents:
  Lead: {model: Lead, sub_agents: [Captain, Busy]}
  Captain: {model: Captain, description: sends leaves, sub_agents: [Leaf]}
  Leaf: {model: Leaf, description: waits for its model}
  Busy: {model: Busy, description: dispatches without end, sub_agents: [Quick]}
  Quick: {model: Quick, description: answers at once}
"""
POLL_SECONDS = 0.005
PATIENCE = 50.0


@dataclass(frozen=True, slots=True)
class Cancelled:
    """One tree and how soon it was over, in seconds from the call of cancel."""

    executions: int
    flags: float
    """Until the wish was on every row, and the caller had its answer."""
    rows: float
    """Until every row was terminal and every task had ended."""
    sockets: float
    """Until the last connection to the model server was closed."""
    broken: list[str]
    """What did not hold, such as a dispatch after the wish."""


class Crowd:
    """The model server in its process."""

    def __init__(self, process: Process, url: str, lines: BufferedByteReceiveStream) -> None:
        self._process, self.url, self._lines = process, url, lines

    async def seen(self) -> dict[str, Any]:
        """What it has seen until now."""
        assert self._process.stdin is not None
        await self._process.stdin.send(b"?\n")
        told: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", 4096))
        return told

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask until something holds."""
        while not holds(told := await self.seen()):
            with anyio.move_on_after(POLL_SECONDS):
                await anyio.sleep_forever()
        return told


@asynccontextmanager
async def crowd(captains: int, leaves: int) -> AsyncIterator[Crowd]:
    """A model server for a tree of this size."""
    command = [sys.executable, "-m", "tests.faults.cancel.crowd_server", str(captains), str(leaves)]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        yield Crowd(process, (await lines.receive_until(b"\n", 4096)).decode(), lines)
        process.kill()


async def cancel_tree(folder: Path, captains: int, leaves: int) -> Cancelled:
    """Start a tree of `captains` times `leaves` hanging agents, cancel it, and see how soon it is over."""
    with anyio.fail_after(PATIENCE):
        async with crowd(captains, leaves) as server:
            environ = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": server.url}
            blueprint = Blueprint(settings_of(folder, CONFIG), folder / "outrider.db", environ=environ)
            async with open_service(blueprint) as dispatcher:
                root = await dispatcher.start(Order("Lead", "root"))
                await server.until(lambda seen: seen["hung"] == captains * leaves)
                return await _cancel(dispatcher, root.id, server, blueprint.database)


async def _cancel(dispatcher: Dispatcher, root: str, server: Crowd, database: Path) -> Cancelled:
    doomed, began = list(dispatcher.tree), time.monotonic()
    await dispatcher.cancel(root, by="the test", reason="enough")
    flags = time.monotonic() - began
    for execution in doomed:
        await execution.done.wait()
    over = time.monotonic() - began
    seen = await server.until(lambda seen: seen["open"] == 0)
    broken = [str(row) for row in rows_of(database, UNFINISHED)]
    broken += [f"{each.name} lives" for each in dispatcher.tree]
    broken += INVARIANTS["I6"](History(database)) + INVARIANTS["I2"](History(database))
    return Cancelled(len(doomed), flags, over, seen["closed_at"] - began, broken)


UNFINISHED = """
    select id, task, status from executions
    where status in ('pending', 'running') or (cancel_requested_at is null and status != 'completed')"""
