"""The composite executor inside a running service: real servers over stdio beside our own tools."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.messages import ToolCall
from runner.service.order import Order
from runner.tools.builtin import OwnTools
from runner.tools.composite import CompositeTools
from tests.support.local_tools import LocalTools, stubborn
from tests.support.models import call, fail, hang, say
from tests.support.reading import answer, dispatch, results
from tests.support.requirement import requirement
from tests.support.servers import DEAD, DISPENSABLE, raw_server, sdk_server
from tests.support.service import bench
from tests.support.upstream_specs import none_running, servers_running


def server(mode: str = "plain", **more: Any) -> str:
    """`plain` is made with the SDK, any other is hostile."""
    return sdk_server(**more) if mode == "plain" else raw_server(mode, **more)


@requirement("S2-CX-7", "S2-LE-8")
async def test_a_server_that_is_down_takes_nothing_else_away_and_is_named(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{good: {server()}, dead: {DEAD}}}
    agents: {{Solo: {{mcp_servers: [good, dead]}}}}
    """
    scripts = {"Solo": [call("good__echo", value=1) + call("dead__echo", value=1), say("dead could not be checked")]}
    async with bench(tmp_path, config, scripts) as service:
        assert (await service.run("Solo")).status == "completed"

        first, second = service.model.requests
        assert "good__echo" in {tool.name for tool in first.tools}
        assert not any(tool.name.startswith("dead__") for tool in first.tools)
        assert '<server name="dead">' in first.system
        assert answer(second) == {"tool": "echo", "arguments": {"value": 1}}
        assert results(second)[1]["is_error"]
        noticed = service.sql("select type, payload from events where type like 'upstream.%'")
        assert any("dead" in row["payload"] for row in noticed)
    assert await none_running()


@requirement("S2-LE-8")
async def test_an_agent_that_may_do_without_its_server_is_told_and_no_call_succeeds(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{dead: {DISPENSABLE}}}
    agents: {{Lead: {{sub_agents: [Child]}}, Child: {{description: needs it, mcp_servers: [dead]}}}}
    """
    scripts = {
        "Lead": [dispatch("Child"), say("waiting"), say("done")],
        "Child": [call("dead__query", q="x"), say("I could not look")],
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

        first, second = service.model.of("Child")
        assert '<server name="dead">' in first.system
        assert results(second)[0]["is_error"]
        assert service.sql("select status from tool_calls where tool like '%query%'") == [{"status": "failed"}]


@requirement("S2-RN-5")
async def test_parent_and_child_have_tools_of_their_own_and_a_filter_binds_what_is_below(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{a: {server()}}}
    agents:
      Lead: {{sub_agents: [Child], tools: {{deny: [a.pid]}}}}
      Child: {{description: looks, mcp_servers: [a]}}
    """
    scripts = {
        "Lead": [dispatch("Child") + dispatch("Child"), say("waiting"), say("done")],
        "Child": [call("a__echo", value=[{"deep": None}, "ü"]) + call("a__pid"), say("looked")],
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

        lead, child = service.model.of("Lead")[0], service.model.of("Child")
        assert not any(tool.server == "a" for tool in lead.tools)
        assert "dispatch_agent" not in {tool.name for tool in child[0].tools}
        assert "a__pid" not in {tool.name for tool in child[0].tools}
        answered = [request for request in child if request.messages[-1].kind == "results"]
        assert len(answered) == 2
        for request in answered:
            assert answer(request)["arguments"] == {"value": [{"deep": None}, "ü"]}
            assert results(request)[1]["is_error"]
        assert len(servers_running()) == 1  # shared by both children


@requirement("S2-RN-5")
async def test_a_server_can_be_started_for_each_execution_and_ends_with_it(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{a: {server(isolation="per_execution")}}}
    agents: {{Lead: {{sub_agents: [Child]}}, Child: {{description: looks, mcp_servers: [a]}}}}
    """
    scripts = {
        "Lead": [dispatch("Child") + dispatch("Child"), say("waiting"), say("done")],
        "Child": [call("a__pid"), say("looked")],
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

        pids = {row["result"] for row in service.sql("select result from tool_calls where tool = 'a.pid'")}
        assert len(pids) == 2
        assert await none_running()


@requirement("S2-GR-13")
async def test_an_upstream_call_is_cut_by_the_tool_timeout(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{a: {server()}}}
    agents: {{Solo: {{mcp_servers: [a], limits: {{tool_timeout: 100ms}}}}}}
    """
    async with bench(tmp_path, config, {"Solo": [call("a__slow"), say("it took too long")]}) as service:
        with anyio.fail_after(5):
            assert (await service.run("Solo")).status == "completed"

        assert service.sql("select status, error_type from tool_calls") == [{"status": "unknown", "error_type": "timeout"}]


@requirement("S2-CX-11")
async def test_dispatches_are_recorded_like_other_calls_under_a_server_name_of_their_own(tmp_path: Path) -> None:
    config = "agents: {Lead: {sub_agents: [Left]}, Left: {description: looks}}"
    scripts = {"Lead": [dispatch("Left", "count"), say("waiting"), say("done")], "Left": [say("three")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

        row = service.sql("select tool, server, status, arguments, result from tool_calls")[0]
        assert (row["tool"], row["server"], row["status"]) == ("dispatch_agent", "orchestrator", "completed")
        assert json.loads(row["arguments"]) == {"name": "Left", "task": "count"}
        child = service.sql("select id, tool_call_id from executions where agent = 'Left'")[0]
        assert json.loads(row["result"])["execution_id"] == child["id"]


CONFIG = """
agents:
  Lead: {sub_agents: [Left], limits: {timeout: 600ms, wrap_up_reserve: 0s, cancel_grace: 100ms}}
  Left: {description: looks, limits: {cancel_grace: 100ms}}
"""


@requirement("S2-SE-5")
@pytest.mark.parametrize("way", ["answer", "error", "timeout", "cancel"])
async def test_the_tools_of_an_execution_are_closed_once_on_every_way_out(tmp_path: Path, way: str) -> None:
    tools = LocalTools({})
    first = {"answer": say("done"), "error": fail()}.get(way, hang())
    async with bench(tmp_path, CONFIG, {"Lead": [first]}, tools.for_agents("Lead")) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(3):
            await service.model.started("Lead")
            if way == "cancel":
                await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)
    assert tools.closed == 1


@requirement("S2-CX-8")
async def test_children_end_before_the_tools_of_their_parent_are_closed_even_stubborn_ones(tmp_path: Path) -> None:
    order: list[str] = []
    inside, released = anyio.Event(), anyio.Event()

    class Noted(LocalTools):
        async def close(self) -> None:
            order.append("closed")

    async def stuck(_: Any) -> str:
        inside.set()
        text = await stubborn(released)
        order.append("child ended")
        return text

    own, childs = Noted({}), LocalTools({"stuck": stuck})
    factories = [lambda agent: own if agent.name == "Lead" else childs]
    scripts = {"Lead": [dispatch("Left"), hang()], "Left": [call("stuck")]}
    async with bench(tmp_path, CONFIG.replace("timeout: 600ms, ", ""), scripts, factories) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(3):
            await inside.wait()
            await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)
        released.set()
    assert order == ["child ended", "closed"]
    assert childs.closed == 1


@requirement("S2-CX-8", "S2-CX-9")
async def test_layers_stack_and_closing_twice_is_harmless() -> None:
    async def echo(arguments: Any) -> str:
        return json.dumps(arguments)

    inner = LocalTools({"echo": echo})
    outer = CompositeTools([CompositeTools([inner]), OwnTools([])])

    assert [tool.name for tool in await outer.list_tools()] == ["echo"]
    assert (await outer.call(ToolCall("1", "echo", {"x": [None]}))).text == '{"x": [null]}'
    assert (await outer.call(ToolCall("2", "missing", {}))).is_error
    await outer.close()
    await outer.close()
    assert inner.closed == 1
