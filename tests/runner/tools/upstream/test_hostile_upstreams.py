"""Upstream servers that break every rule, and what follows from it; each single fault is in `tests/faults`."""

import time

import anyio
import anyio.lowlevel
import pytest

from registry.specs.upstreams import UpstreamSpec
from runner.messages import ToolCall
from runner.tools.upstream import pool, process, server
from tests.support.upstream_specs import call, none_running, opened, raw, raw_http, servers_running


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_GRACE", 0.3)


async def test_an_older_server_that_ignores_what_it_does_not_know_is_reached_at_the_second_attempt() -> None:
    async with opened(raw("ignores_unknown", start_timeout=0.5)) as here:
        tools = here.tools()
        assert await tools.list_tools() == []
        with anyio.fail_after(10):
            while not await tools.list_tools():
                await anyio.lowlevel.checkpoint()
        assert (await call(tools, "ignores_unknown__poke")).text == "ok"


async def test_a_description_is_cut_and_says_so() -> None:
    async with opened(raw("large_description")) as here:
        (tool,) = await here.tools().list_tools()
        assert tool.label == "large_description.poke"
        assert 16_000 < len(tool.description) < 17_000
        assert tool.description.endswith(" [cut]")


async def test_the_patterns_of_a_server_are_never_run() -> None:
    async with opened(raw("bad_pattern"), default_timeout=5) as here:
        assert (await call(here.tools(), "bad_pattern__poke")).structured == {"v": "a" * 60 + "!"}


async def test_the_next_call_after_a_death_reconnects_and_dying_again_and_again_waits() -> None:
    async with opened(raw("dies")) as here:
        tools = here.tools()
        await tools.list_tools()
        first = set(servers_running())
        assert (await call(tools, "dies__poke")).error_type == "unavailable"
        second = await call(tools, "dies__poke")
        assert "was cut off" in second.text
        assert not first & set(servers_running())
        began = time.monotonic()
        third = await call(tools, "dies__poke")
        assert "was not called" in third.text
        assert "next attempt in" in third.text
        assert time.monotonic() - began < 0.2
        assert here.kinds() == ["lost", "lost"]


async def test_a_server_that_stopped_answering_is_replaced_before_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PROBE_SECONDS", 0.5)
    async with opened(raw("hangs"), default_timeout=0.2) as here:
        tools = here.tools()
        assert (await call(tools, "hangs__poke")).error_type == "timeout"
        stuck = set(servers_running())
        began = time.monotonic()
        assert (await call(tools, "hangs__well")).text == "well"
        assert time.monotonic() - began < server.PROBE_SECONDS + 3
        assert "stopped answering" in here.notices[-1].message
        assert set(servers_running()) - stuck


@pytest.mark.parametrize(("way", "count"), [("stdio", 300), ("http", 40)])
async def test_cancelling_many_calls_of_a_server_that_does_not_listen_does_not_wait_for_it(way: str, count: int) -> None:
    with raw_http() as web:
        async with opened(raw("deaf") if way == "stdio" else web.spec("deaf"), default_timeout=60) as here:
            tools, calls = (
                here.tools(),
                [ToolCall(str(number), "deaf__poke", {"value": "x" * 4000}) for number in range(count)],
            )
            await tools.list_tools()
            began = 0.0
            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    for each in calls:
                        tasks.start_soon(tools.call, each)
                    while not all(each.flight.sent for each in calls):
                        await anyio.lowlevel.checkpoint()
                    for _ in range(100):  # and past all that comes before the first byte
                        await anyio.lowlevel.checkpoint()
                    began = time.monotonic()
                    tasks.cancel_scope.cancel()
            assert time.monotonic() - began < 2


async def test_a_server_that_never_stops_writing_is_stopped() -> None:
    async with opened(raw("endless_line"), default_timeout=0.5) as here:
        with anyio.fail_after(20):
            while "lost" not in here.kinds():
                await call(here.tools(), "endless_line__poke")
        assert "of unrequested output" in here.notices[-1].message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (UpstreamSpec(name="down", command=("no-such-program-at-all",)), "no such program"),
        (UpstreamSpec(name="down", command=("/dev/null",)), "no such program"),
    ],
)
async def test_a_server_that_cannot_be_listed_takes_no_other_away(spec: UpstreamSpec, words: str) -> None:
    async with opened(raw("pid", "first"), spec, raw("pid", "last"), default_timeout=5) as here:
        tools = here.tools()
        began = time.monotonic()
        assert [tool.label for tool in await tools.list_tools()] == [
            "first.poke",
            "first.well",
            "last.poke",
            "last.well",
        ]
        assert time.monotonic() - began < 3
        assert list(tools.unavailable) == ["down"]
        assert words in tools.unavailable["down"]
        assert any(notice.server == "down" and notice.scope_id == "execution" for notice in here.notices)
        began = time.monotonic()
        result = await call(tools, "down__poke")
        assert result.error_type == "unavailable"
        assert "hint" in result.text
        assert time.monotonic() - began < 0.5
        assert (await call(tools, "last__poke")).text.isdigit()
    assert await none_running(0)


async def test_an_execution_begins_with_the_servers_that_are_there_and_knows_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert pool.SERVER_WAIT < 5
    monkeypatch.setattr(pool, "SERVER_WAIT", 3.0)  # for two healthy servers to start on a busy machine
    down = {
        "refused": UpstreamSpec(name="refused", url="http://127.0.0.1:9/mcp"),
        "missing": UpstreamSpec(name="missing", command=("no-such-program-at-all",)),
        "crashed": raw("dies_at_start", "crashed"),
        "silent": raw("never_answers", "silent"),
        "mute": raw("mute_list", "mute"),
    }
    async with opened(raw("pid", "first"), *down.values(), raw("pid", "last"), default_timeout=60) as here:
        tools = here.tools()
        began = time.monotonic()
        listed = await tools.list_tools()
        await here.upstreams.instructions(here.servers, "execution")
        assert time.monotonic() - began < pool.SERVER_WAIT + 0.5
        assert {tool.server for tool in listed} == {"first", "last"}
        assert list(tools.unavailable) == list(down)
        assert "still starting" in tools.unavailable["silent"]


async def test_the_first_callers_share_one_start_also_when_it_fails() -> None:
    async with opened(raw("dies_at_start", "down"), raw("pid")) as here:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(here.tools(scope=f"execution {number}").list_tools)
            tasks.start_soon(here.tools(scope="last").list_tools)
        assert len([notice for notice in here.notices if notice.scope_id is None]) == 1
        assert len(servers_running()) == 1


async def test_a_caller_that_gives_up_during_the_start_leaves_it_to_the_others() -> None:
    async with opened(raw("pid")) as here:
        with anyio.move_on_after(0.001) as scope:
            await here.tools().list_tools()
        assert scope.cancelled_caught
        assert [tool.label for tool in await here.tools().list_tools()] == ["pid.poke", "pid.well"]
        assert len(servers_running()) == 1


async def test_leaving_is_bounded_and_parallel_even_with_servers_that_ignore_every_wish() -> None:
    specs = [raw("stubborn", f"stubborn{number}") for number in range(4)]
    async with opened(*specs) as here:
        assert len(await here.tools().list_tools()) == 8
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert await none_running(0)


async def test_leaving_gives_up_a_start_under_way() -> None:
    async with opened(raw("never_answers", start_timeout=30)) as here:
        with anyio.move_on_after(0.3):
            await here.tools().list_tools()
        began = time.monotonic()
    assert time.monotonic() - began < 4
    assert await none_running(0)


async def test_cancelling_the_service_leaves_no_process() -> None:
    with anyio.CancelScope() as scope:
        async with opened(raw("pid"), raw("stubborn")) as here:
            await here.tools().list_tools()
            scope.cancel()
            await anyio.sleep_forever()
    assert await none_running(0)
