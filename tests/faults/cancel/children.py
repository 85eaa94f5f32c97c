"""Many executions with servers of their own are cancelled: how soon every process of theirs is gone.

Owns: the executions, what their servers are like, and looking for what is left. Must not know: what is made of the figures.
Invariant: what is waited for are processes as the system knows them, also those whose parents have ended.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import anyio

from runner.service.order import Order
from tests.support.models import Turn, call, gate, hang, say
from tests.support.reading import dispatch
from tests.support.service import Bench, bench
from tests.support.upstream_specs import ended, servers_running

SERVER = Path(__file__).with_name("own_server.py")
KINDS = ("Obeys", "Ignores", "Breeds", "Stuck")
WAVE = 5
"""Of each kind, servers that start at the same time: starting is not what is measured."""
PATIENCE, WAVE_SECONDS = 15.0, 40.0


@dataclass(frozen=True, slots=True)
class Gone:
    """How soon it was over, in seconds from the call of cancel."""

    executions: int
    processes: int
    """Their servers, and what these had started."""
    rows: float
    """Until the tree had ended."""
    children: float
    """Until the last process was gone."""
    broken: list[str]
    """What did not hold, such as a process that is left."""


def _server(kind: str, isolation: str) -> str:
    command = [sys.executable, "-I", "-S", str(SERVER), kind.lower()]
    return json.dumps({"command": command, "isolation": isolation, "start_timeout": "30s"})


def _config() -> str:
    agents = "\n".join(f"  {kind}: {{description: works, mcp_servers: [own{kind}, everybodys]}}" for kind in KINDS)
    servers = ", ".join(f"own{kind}: {_server(kind, 'per_execution')}" for kind in KINDS)
    return f"""
mcp_servers: {{everybodys: {_server("obeys", "shared")}, {servers}}}
agents:
  Lead: {{sub_agents: [{", ".join(KINDS)}], limits: {{max_concurrent_agents: 1000, max_dispatches: 1000}}}}
  Other: {{mcp_servers: [everybodys]}}
{agents}
"""


async def cancel_children(folder: Path, each: int) -> Gone:
    """Let `each` executions of every kind use a server of their own, cancel them, and see how soon these are gone."""
    waves = [(anyio.Event(), min(WAVE, each - begun)) for begun in range(0, each, WAVE)]
    lead: list[Turn] = []
    for begins, size in waves:
        everybody = Turn()
        for kind in KINDS * size:
            everybody += dispatch(kind)
        lead.append(gate(begins, everybody))
    working = {kind: [call(f"own{kind}__poke"), hang()] for kind in KINDS}
    scripts = {"Lead": [*lead, hang()], "Other": [call("everybodys__poke"), say("there")], **working}
    async with bench(folder, _config(), scripts) as service:
        root = await service.dispatcher.start(Order("Lead"))
        await service.run("Other")
        begun = 0
        for begins, size in waves:
            begins.set()
            begun += size
            with anyio.fail_after(WAVE_SECONDS):
                await _at_work(service, begun)
        return await _cancel(service, root.id)


async def _at_work(service: Bench, each: int) -> None:
    """Until so many of every kind have called their server; those that are stuck get no answer."""
    for kind in KINDS[:-1]:
        await service.model.started(kind, 2 * each)
    await service.until(lambda: len(service.sql("select id from tool_calls where tool = 'ownStuck.poke'")) == each)


async def _cancel(service: Bench, root: str) -> Gone:
    query = "select distinct result as pid from tool_calls where tool = 'everybodys.poke'"
    shared = service.sql(query)
    doomed = [process for process in servers_running() if {"pid": str(process.pid)} not in shared]
    executions, since = len(list(service.dispatcher.tree)), time.monotonic()
    await service.dispatcher.cancel(root, "the test", "enough")
    with anyio.fail_after(PATIENCE):
        await service.dispatcher.wait(root)
    rows = time.monotonic() - since
    broken = [] if await ended(doomed, PATIENCE) else ["a process is left"]
    children = time.monotonic() - since
    await service.run("Other")
    if service.sql(query) != shared:
        broken.append("the server that others share was ended")
    left = service.sql("select status from tool_calls where tool = 'ownStuck.poke' and status != 'unknown'")
    broken += [f"a call without an answer is {row['status']}" for row in left]
    return Gone(executions, len(doomed), rows, children, broken)
