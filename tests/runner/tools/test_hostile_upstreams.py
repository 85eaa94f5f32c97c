"""Upstream servers that break every rule: contained, told of in words, and replaced at the next call."""

import time

import anyio
import anyio.lowlevel
import psutil
import pytest

from registry.upstreams import UpstreamSpec
from tests.support.upstream_specs import Opened, call, none_running, opened, raw

TIMEOUT = 1.0


async def poke(here: Opened, server: str) -> tuple[str, str]:
    """Call a hostile tool; give its error type and text, and fail when it takes more than its time."""
    began = time.monotonic()
    result = await call(here.tools(), f"{server}__poke")
    assert time.monotonic() - began < TIMEOUT + 1
    return result.error_type or "", result.text


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        ("hangs", "timeout", "did not answer within 1 s"),
        ("wrong_id", "timeout", "did not answer within 1 s"),
        ("bad_json", "tool_error", "not a valid message"),
        ("deep_json", "tool_error", "not a valid message"),
        ("surrogate", "tool_error", "not a valid message"),
        ("wrong_shape", "tool_error", "cannot be used"),
        ("endless_line", "tool_error", "longer than 10 MB"),
        ("long_line", "tool_error", "longer than 10 MB"),
        ("long_line_id_last", "tool_error", "longer than 10 MB"),
        ("closes_output", "unavailable", "closed its output"),
        ("dies", "unavailable", "ended with exit code 3; it said: panic: no more disk"),
    ],
)
async def test_a_hostile_answer_is_a_clear_error_in_time_and_harms_no_other(mode: str, kind: str, words: str) -> None:
    async with opened(raw(mode, "hostile"), raw("pid", "good"), default_timeout=TIMEOUT) as here:
        good = await call(here.tools(), "good__poke")
        error_type, text = await poke(here, "hostile")
        assert (error_type, words in text) == (kind, True), text
        assert "hostile.poke" in text
        assert "\nhint: " in text
        assert await call(here.tools(), "good__poke") == good
    assert await none_running(0)


@pytest.mark.parametrize(
    ("mode", "text"),
    [("bad_utf8", "caf�"), ("nul", "a�b"), ("flood", "ok"), ("noisy", "ok"), ("twice", "first"), ("stubborn", "ok")],
)
async def test_what_can_be_understood_is(mode: str, text: str) -> None:
    async with opened(raw(mode, "odd"), default_timeout=5) as here:
        for _ in range(2):
            assert (await call(here.tools(), "odd__poke")).text == text
    assert await none_running(0)


async def test_an_older_server_that_ignores_what_it_does_not_know_is_reached_at_the_second_attempt() -> None:
    async with opened(raw("ignores_unknown", start_timeout=0.5)) as here:
        tools = here.tools()
        assert await tools.list_tools() == []
        with anyio.fail_after(10):
            while not await tools.list_tools():
                await anyio.lowlevel.checkpoint()
        assert (await call(tools, "ignores_unknown__poke")).text == "ok"


async def test_a_list_of_tools_is_cut_to_what_can_be_sent() -> None:
    async with opened(raw("many"), raw("large")) as here:
        listed = await here.tools().list_tools()
        assert len([tool for tool in listed if tool.server == "many"]) == 1000
        large = [tool for tool in listed if tool.server == "large"]
        assert [tool.label for tool in large] == ["large.poke"]
        assert len(large[0].description) < 20_000
        assert sorted(here.kinds()) == ["list_cut", "tool_left_out"]


async def test_the_patterns_of_a_server_are_never_run() -> None:
    async with opened(raw("bad_pattern"), default_timeout=5) as here:
        assert (await call(here.tools(), "bad_pattern__poke")).structured == {"v": "a" * 60 + "!"}


async def test_a_change_of_the_list_is_heard() -> None:
    async with opened(raw("changes")) as here:
        tools = here.tools()
        assert [tool.label for tool in await tools.list_tools()] == ["changes.poke"]
        await call(tools, "changes__poke")
        assert [tool.label for tool in await tools.list_tools()] == ["changes.poke", "changes.prod"]


async def test_the_next_call_after_a_death_reconnects_and_dying_again_and_again_waits() -> None:
    async with opened(raw("dies")) as here:
        tools = here.tools()
        await tools.list_tools()
        first = {process.pid for process in psutil.Process().children()}
        assert (await call(tools, "dies__poke")).error_type == "unavailable"
        second = await call(tools, "dies__poke")
        assert "was cut off" in second.text
        assert not first & {process.pid for process in psutil.Process().children()}
        began = time.monotonic()
        third = await call(tools, "dies__poke")
        assert "was not called" in third.text
        assert "tried again in" in third.text
        assert time.monotonic() - began < 0.2
        assert here.kinds() == ["lost", "lost"]


async def test_a_server_that_stopped_answering_is_replaced() -> None:
    async with opened(raw("hangs"), default_timeout=0.2) as here:
        tools = here.tools()
        assert (await call(tools, "hangs__poke")).error_type == "timeout"
        stuck = {process.pid for process in psutil.Process().children()}
        with anyio.fail_after(15):
            while "lost" not in here.kinds():
                await call(tools, "hangs__poke")
        assert "stopped answering" in here.notices[-1].message
        assert (await call(tools, "hangs__poke")).error_type == "timeout"
        assert {process.pid for process in psutil.Process().children()} - stuck


async def test_a_server_that_never_stops_writing_is_stopped() -> None:
    async with opened(raw("endless_line"), default_timeout=0.5) as here:
        with anyio.fail_after(20):
            while "lost" not in here.kinds():
                await call(here.tools(), "endless_line__poke")
        assert "that nobody asked for" in here.notices[-1].message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (raw("dies_at_start", "down"), "ended with exit code 7; it said: no configuration found"),
        (raw("never_answers", "down", start_timeout=0.5), "did not answer within 0.5 s of its start"),
        (raw("mute_list", "down", timeout=0.5), "did not list its tools within 0.5 s"),
        (UpstreamSpec(name="down", command=("no-such-program-at-all",)), "no such program"),
        (UpstreamSpec(name="down", command=("/dev/null",)), "no such program"),
    ],
)
async def test_a_server_that_cannot_be_listed_takes_no_other_away(spec: UpstreamSpec, words: str) -> None:
    async with opened(raw("pid", "first"), spec, raw("pid", "last"), default_timeout=5) as here:
        tools = here.tools()
        began = time.monotonic()
        assert [tool.label for tool in await tools.list_tools()] == ["first.poke", "last.poke"]
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


async def test_the_first_callers_share_one_start_also_when_it_fails() -> None:
    async with opened(raw("dies_at_start", "down"), raw("pid")) as here:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(here.tools(scope=f"execution {number}").list_tools)
            tasks.start_soon(here.tools(scope="last").list_tools)
        assert len([notice for notice in here.notices if notice.scope_id is None]) == 1
        assert len(psutil.Process().children()) == 1


async def test_a_caller_that_gives_up_during_the_start_leaves_it_to_the_others() -> None:
    async with opened(raw("pid")) as here:
        with anyio.move_on_after(0.001) as scope:
            await here.tools().list_tools()
        assert scope.cancelled_caught
        assert [tool.label for tool in await here.tools().list_tools()] == ["pid.poke"]
        assert len(psutil.Process().children()) == 1


async def test_leaving_is_bounded_and_parallel_even_with_servers_that_ignore_every_wish() -> None:
    specs = [raw("stubborn", f"stubborn{number}") for number in range(4)]
    async with opened(*specs) as here:
        assert len(await here.tools().list_tools()) == 4
        began = time.monotonic()
    assert time.monotonic() - began < 6
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


async def test_a_flood_does_not_hold_up_the_loop() -> None:
    worst = 0.0
    async with opened(raw("flood"), raw("long_line"), default_timeout=10) as here:
        tools = here.tools()
        await tools.list_tools()

        async def watch() -> None:
            nonlocal worst
            while True:
                before = time.monotonic()
                with anyio.move_on_after(0.005):
                    await anyio.sleep_forever()
                worst = max(worst, time.monotonic() - before - 0.005)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            for server in ("flood", "long_line"):
                await call(tools, f"{server}__poke")
            tasks.cancel_scope.cancel()
    assert worst < 0.3
