"""Servers of a single execution: when it is cancelled they are gone, with all they started, and nobody waits for them."""

import time
from pathlib import Path

import anyio
import psutil

from runner.dispatcher import Order
from tests.support.models import Turn, call, hang, say
from tests.support.reading import dispatch
from tests.support.requirement import requirement
from tests.support.servers import raw_server
from tests.support.service import bench
from tests.support.upstream_specs import ended, none_running, servers_running

EACH = 4
"""Executions with a server of each kind."""

KINDS = {"obeys": "pid", "ignores": "stubborn", "breeds": "breeds", "stuck": "hangs"}
"""What the servers are like: they end with their input, hear no signal, leave children, or neither read nor answer."""


@requirement("S2-CA-3", "S2-CA-5")
async def test_when_executions_are_cancelled_their_own_servers_are_gone_within_five_seconds_and_shared_ones_stay(
    tmp_path: Path,
) -> None:
    own = ", ".join(f"{name}: {raw_server(mode, isolation='per_execution')}" for name, mode in KINDS.items())
    agents = "\n".join(f"      {name.title()}: {{description: works, mcp_servers: [{name}, all]}}" for name in KINDS)
    config = f"""
    mcp_servers: {{all: {raw_server("pid")}, {own}}}
    agents:
      Lead: {{sub_agents: [{", ".join(name.title() for name in KINDS)}], max_concurrent_agents: 16}}
      Other: {{mcp_servers: [all]}}
{agents}
    """
    everybody = Turn()
    for name in list(KINDS) * EACH:
        everybody += dispatch(name.title())
    working = {name.title(): [call(f"{name}__poke"), hang()] for name in KINDS}
    scripts = {"Lead": [everybody, hang()], "Other": [call("all__poke"), say("there")], **working}
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(40):
            for name in ("Obeys", "Ignores", "Breeds"):
                await service.model.started(name, 2 * EACH)
            while len(service.sql("select id from tool_calls where tool = 'stuck.poke'")) < EACH:
                await anyio.lowlevel.checkpoint()
        await service.run("Other")
        (shared,) = service.sql("select result as pid from tool_calls where tool = 'all.poke'")
        doomed = [each for each in servers_running() if each.pid != int(shared["pid"])]
        assert len(doomed) == EACH * (len(KINDS) + 1)

        cancelled = time.monotonic()
        await service.dispatcher.cancel(started.id, "somebody", "enough")
        with anyio.fail_after(5):
            await service.dispatcher.wait(started.id)
        assert time.monotonic() - cancelled < 1.5
        assert await ended(doomed, 5 - (time.monotonic() - cancelled))

        assert psutil.pid_exists(int(shared["pid"]))
        await service.run("Other")
        pids = service.sql("select distinct result as pid from tool_calls where tool = 'all.poke'")
        assert pids == [shared]
        assert service.sql("select distinct status from tool_calls where tool = 'stuck.poke'") == [{"status": "unknown"}]
    assert await none_running(0)
