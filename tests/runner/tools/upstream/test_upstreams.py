"""Upstream servers that behave: listing, calling, sharing, closing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from registry.specs.tool_filter import ToolFilter
from runner.messages import ToolCall
from runner.tools.builtin import Arguments, OwnTool, OwnTools
from runner.tools.composite import CompositeTools
from runner.tools.protocol import ToolExecutor, ToolResult
from runner.tools.upstream.pool import UpstreamTools
from tests.support.requirement import requirement
from tests.support.upstream_specs import ROOT, call, ended, none_running, opened, raw, sdk


def test_importing_the_seam_does_not_import_the_sdk() -> None:
    program = "import sys, runner.tools.upstream.pool, runner.tools.upstream.stdio; sys.exit('mcp' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


WHILE_IMPORTED = """
import sys
from pathlib import Path

import anyio

from registry.specs.upstreams import UpstreamSpec
from tests.support.upstream_specs import ROOT, opened

fifo, server = sys.argv[1:]


class Gate:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "mcp":
            assert Path(fifo).read_text() == "started\\n"  # waits for the server


async def main():
    command = ("sh", "-c", f"echo started > {fifo}; exec {sys.executable} -I -S {server}")
    async with opened(UpstreamSpec(name="gate", command=command, cwd=ROOT)) as here:
        print([tool.name for tool in await here.tools().list_tools()])


sys.meta_path.insert(0, Gate)
anyio.run(main)
"""


def test_a_server_is_started_before_the_sdk_is_imported(tmp_path: Path) -> None:
    fifo, server = tmp_path / "fifo", ROOT / "tests" / "support" / "gate_server.py"
    os.mkfifo(fifo)
    command = [sys.executable, "-c", WHILE_IMPORTED, str(fifo), str(server)]
    told = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True, timeout=30)

    assert told.stdout == "['gate__wait']\n"


async def test_the_upstream_tools_are_a_tool_executor() -> None:
    async with opened(raw("pid")) as here:
        executor: ToolExecutor = here.tools()
        assert [tool.name for tool in await executor.list_tools()] == ["pid__poke", "pid__well"]
        assert (await executor.call(ToolCall("1", "pid__poke", {}))).text.isdigit()
        await executor.close()
        await executor.close()


@requirement("S2-TN-3", "S2-TN-5")
async def test_every_oddly_named_tool_is_reached_under_its_own_name() -> None:
    async with opened(sdk("odd")) as here:
        tools = here.tools()
        listed = await tools.list_tools()
        assert len({tool.name for tool in listed}) == len(listed) == 9
        for tool in listed:
            answer = json.loads((await call(tools, tool.name)).text)
            assert f"odd.{answer['tool']}" == tool.label
    async with opened(sdk("odd")) as restarted:
        assert [tool.name for tool in await restarted.tools().list_tools()] == [tool.name for tool in listed]


@requirement("S2-TN-6")
async def test_an_upstream_tool_named_like_one_of_ours_is_listed_beside_it_and_each_is_reached() -> None:
    async def run(_call: ToolCall, _arguments: Arguments) -> ToolResult:
        return ToolResult("ours")

    own = OwnTools([OwnTool("dispatch_agent", "Ours.", Arguments, run)])
    async with opened(sdk("odd")) as here:
        orders: list[list[ToolExecutor]] = [[own, here.tools()], [here.tools(), own]]
        for layers in orders:
            tools = CompositeTools(layers)
            names = [tool.name for tool in await tools.list_tools()]
            assert {"dispatch_agent", "odd__dispatch_agent"} <= set(names)
            assert (await tools.call(ToolCall("1", "dispatch_agent", {}))).text == "ours"
            theirs = await tools.call(ToolCall("2", "odd__dispatch_agent", {}))
            assert json.loads(theirs.text)["tool"] == "dispatch_agent"


async def test_a_tool_listed_twice_is_kept_once_and_told_of() -> None:
    async with opened(sdk("duplicates")) as here:
        listed = await here.tools().list_tools()
        assert [tool.label for tool in listed] == ["duplicates.echo", "duplicates.twin", "duplicates.pid"]
        assert here.kinds() == ["duplicate_tool"]
        assert "duplicates.twin" in here.notices[0].message
        assert here.notices[0].scope_id == "execution"


async def test_all_pages_are_listed_and_an_endless_list_ends() -> None:
    async with opened(sdk("paged"), sdk("endless_pages")) as here:
        listed = await here.tools().list_tools()
        assert [tool.label for tool in listed if tool.server == "paged"] == [f"paged.tool_{n:02}" for n in range(25)]
        assert len([tool for tool in listed if tool.server == "endless_pages"]) == 5
        assert here.kinds() == ["list_cut"]


async def test_arguments_arrive_unchanged() -> None:
    odd = {"value": [{"ключ": None, "n": 1.5, "": [[]], "big": 2**60, "t": "a\nb \u2028 \\ \" '"}, False]}
    async with opened(sdk("plain")) as here:
        answer = await call(here.tools(), "plain__echo", **odd)
        assert json.loads(answer.text)["arguments"] == odd


@requirement("S2-CX-4")
async def test_text_structure_media_and_errors_pass_through() -> None:
    async with opened(sdk("plain")) as here:
        tools = here.tools()
        media = await call(tools, "plain__media")
        assert media.text.splitlines() == [
            "a picture:",
            "[image image/png, 12 kB]",
            "[link to runbook: https://example.org/runbook]",
            "[resource file:///log]",
            "line one",
        ]
        structured = await call(tools, "plain__structured")
        assert structured.structured == {"rows": [1, 2], "nul": "a�b"}
        assert json.loads(structured.text) == structured.structured
        assert await call(tools, "plain__error") == ToolResult("the disk is full", True, None, "tool_error")
        refused = await call(tools, "plain__refuse")
        assert refused.error_type == "invalid_arguments"
        assert "value must be a colour" in refused.text
        asked = await call(tools, "plain__ask")
        assert asked.is_error
        assert "input from a person" in asked.text


async def test_a_result_over_the_cap_is_cut_visibly_and_kept_whole() -> None:
    async with opened(sdk("plain", max_result_bytes=1000)) as here:
        result = await call(here.tools(), "plain__big", value=30_000)
        shown = len(result.text) - len(result.text.lstrip("é"))
        assert len(result.text.encode()) <= 1000
        assert f'`read_result`: execution_id "call-1", offset {shown}]' in result.text
        assert "60 kB" in result.text
        assert result.full_text == "é" * 30_000


async def test_a_filtered_tool_is_neither_listed_nor_called() -> None:
    filters = ToolFilter(allow=("echo", "p*", "big"), deny=("b*",))
    async with opened(sdk("plain", tools=filters)) as here:
        tools = here.tools()
        assert [tool.label for tool in await tools.list_tools()] == ["plain.echo", "plain.pid"]
        for denied in ("plain__big", "plain__slow"):
            result = await call(tools, denied, value=1)
            assert result.is_error
            assert "`plain__echo`" in result.text


async def test_only_the_configuration_says_what_may_run_again_and_what_must_be_allowed() -> None:
    settings: dict[str, Any] = {"effects": {"echo": "read_only", "b*": "idempotent"}, "gates": {"pid": "ask"}}
    async with opened(sdk("plain", **settings)) as here:
        tools = {tool.label: tool for tool in await here.tools().list_tools()}
        assert tools["plain.echo"].effect == "read_only"
        assert tools["plain.big"].effect == "idempotent"
        assert tools["plain.pid"].effect == "at_most_once"
        assert tools["plain.pid"].gate == "ask"
        assert tools["plain.die"].gate == "none"


async def test_a_server_is_believed_where_the_configuration_trusts_it_and_says_nothing_else() -> None:
    settings: dict[str, Any] = {
        "trust_annotations": True,
        "effects": {"pid": "ask"},
        "gates": {"refuse": "none", "e*": "ask"},
    }
    async with opened(sdk("plain", **settings)) as here:
        tools = {tool.label: (tool.effect, tool.gate) for tool in await here.tools().list_tools()}
        assert tools["plain.big"] == ("read_only", "none")
        assert tools["plain.breed"] == ("idempotent", "none")
        assert tools["plain.die"] == ("at_most_once", "ask")
        assert tools["plain.pid"] == ("ask", "none")
        assert tools["plain.refuse"] == ("at_most_once", "none")
        assert tools["plain.echo"] == ("read_only", "ask")


async def test_an_unknown_tool_and_malformed_arguments_are_errors_with_a_way_on() -> None:
    async with opened(raw("pid")) as here:
        tools = here.tools()
        unknown = await call(tools, "pid__pok")
        assert (unknown.error_type, unknown.is_error) == ("unknown_tool", True)
        assert "`pid__poke`" in unknown.text
        malformed = await tools.call(ToolCall("1", "pid__poke", {}, malformed="[1"))
        assert malformed.error_type == "invalid_arguments"
        assert (await call(tools, "pid.poke")).text.isdigit()


async def test_cancelling_a_call_cancels_the_request_upstream_and_keeps_the_connection() -> None:
    async with opened(sdk("plain"), default_timeout=30) as here:
        tools = here.tools()
        before = (await call(tools, "plain__pid")).text
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call(tools, "plain__slow"))
            assert (await call(tools, "plain__started")).text == "started"
            tasks.cancel_scope.cancel()
        assert (await call(tools, "plain__cancelled")).text == "cancelled"
        assert (await call(tools, "plain__pid")).text == before


async def test_a_timeout_cancels_the_request_upstream_and_a_slow_tool_costs_no_connection() -> None:
    async with opened(sdk("plain")) as here:
        tools = here.tools()
        before = (await call(tools, "plain__pid")).text
        slow = await call(here.tools(timeout=0.2), "plain__slow")
        assert slow.error_type == "timeout"
        assert "within 0.2 s" in slow.text
        assert (await call(tools, "plain__cancelled")).text == "cancelled"
        assert (await call(tools, "plain__pid")).text == before


async def processes(tools: list[UpstreamTools], name: str) -> set[str]:
    found: set[str] = set()

    async def ask(executor: UpstreamTools) -> None:
        found.add((await call(executor, name)).text)

    async with anyio.create_task_group() as tasks:
        for executor in tools:
            tasks.start_soon(ask, executor)
    return found


async def test_executions_share_a_server_unless_it_is_set_to_one_each() -> None:
    async with opened(raw("pid", "one"), raw("pid", "each", isolation="per_execution")) as here:
        ten = [here.tools("one", scope=f"execution {number}") for number in range(10)]
        assert len(await processes(ten, "one__poke")) == 1
        ten = [here.tools("each", scope=f"execution {number}") for number in range(10)]
        own = await processes(ten, "each__poke")
        running = [psutil.Process(int(pid)) for pid in own]
        assert len(running) == 10
        for executor in ten:
            await executor.close()
        assert await ended(running)
        assert len(await processes([here.tools("one")], "one__poke")) == 1
        closed = await call(ten[0], "each__poke")
        assert closed.error_type == "unavailable"


async def test_an_execution_sees_the_tools_of_its_own_servers_only() -> None:
    async with opened(raw("pid", "a"), raw("pid", "b")) as here:
        assert [tool.label for tool in await here.tools("a").list_tools()] == ["a.poke", "a.well"]
        assert [tool.label for tool in await here.tools("b").list_tools()] == ["b.poke", "b.well"]
        assert (await call(here.tools("a"), "b__poke")).error_type == "unknown_tool"


async def test_tools_stand_in_the_order_of_the_servers_whichever_answers_first() -> None:
    async with opened(sdk("duplicates", "late"), raw("pid", "early")) as here:
        for servers in (("late", "early"), ("early", "late")):
            listed = await here.tools(*servers).list_tools()
            assert list(dict.fromkeys(tool.server for tool in listed)) == list(servers)


async def test_instructions_are_the_configured_ones_else_the_servers_own_and_short() -> None:
    specs = (sdk("plain"), raw("pid", "told", instructions="Ask nicely."), raw("pid", "silent"), raw("dies_at_start"))
    async with opened(*specs) as here:
        await here.tools().list_tools()
        texts = await here.upstreams.instructions(here.servers, "execution")
        assert list(texts) == ["plain", "told"]
        assert texts["told"] == "Ask nicely."
        assert texts["plain"].startswith("Ask for logs first.")
        assert len(texts["plain"]) <= 4000


async def test_a_server_inherits_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "secret")
    async with opened(raw("environment", env={"GIVEN": "yes"})) as here:
        seen = json.loads((await call(here.tools(), "environment__poke")).text)
    allowed = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "GIVEN"}
    # An interpreter in the C locale sets this one for itself.
    assert seen["variables"].keys() - {"LC_CTYPE"} <= allowed
    assert seen["variables"]["GIVEN"] == "yes"
    assert seen["descriptors"] == [0, 1, 2]
    assert seen["group"] != os.getpgrp()


async def test_leaving_stops_every_server_and_what_it_started() -> None:
    async with opened(sdk("plain"), raw("pid")) as here:
        tools = here.tools()
        await tools.list_tools()
        grandchild = int((await call(tools, "plain__breed")).text)
        process = psutil.Process(grandchild)
    assert await none_running(0)
    assert await ended([process])


@pytest.mark.parametrize("seconds", [8.0, 0.0])
async def test_an_error_of_the_service_leaves_as_it_is_also_when_closing_takes_too_long(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.tools.upstream.pool.CLOSE_GRACE", seconds)

    async def use_and_fail() -> None:
        async with opened(raw("pid")) as here:
            await here.tools().list_tools()
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await use_and_fail()
    assert await none_running()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
async def test_a_server_dies_with_the_process_that_started_it() -> None:
    program = """
import anyio, os, signal
from tests.support.upstream_specs import call, opened, raw
async def main():
    async with opened(raw("stubborn")) as here:
        await here.tools().list_tools()
        print(*[child.pid for child in __import__("psutil").Process().children()], flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main)
"""
    done = await anyio.run_process([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert done.returncode == -9, done.stderr
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 1
    assert await ended([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)])
