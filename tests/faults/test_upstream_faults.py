"""Every fault of an upstream server, over stdio and over HTTP: contained, told of in words, and over in time."""

import time
from collections.abc import Iterator, Sequence

import anyio
import pytest

from registry.specs.upstreams import UpstreamSpec
from runner.tools.upstream import process
from runner.tools.upstream import server as upstream_server
from server.app import patient_collector
from tests.faults.fault import contained
from tests.faults.upstream_faults import CALLS, LISTS, Outcome, UpstreamFault
from tests.support.upstream_specs import RawHttp, call, none_running, opened, raw, raw_http

TIMEOUT = 0.6
"""Of a call that is to run into it."""
CPU_SECONDS = 2.0
"""What 100 MB may cost, and anything less."""
PATIENCE = 6.0
"""Of a call that is not, however busy the machine."""


@pytest.fixture(scope="module")
def web() -> Iterator[RawHttp]:
    with raw_http() as server:
        yield server


@pytest.fixture(autouse=True, scope="module")
def collector() -> Iterator[None]:
    """As in a service: what was there before is not looked at again in the middle of a fault."""
    with patient_collector():
        yield


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_server, "PROBE_SECONDS", 0.3)
    monkeypatch.setattr(process, "STOP_GRACE", 0.2)


def each_way(faults: Sequence[UpstreamFault]) -> pytest.MarkDecorator:
    """Every fault on every transport it exists on."""
    ways = [(each, way) for each in faults for way in ("stdio", "http") if getattr(each, way) is not None]
    return pytest.mark.parametrize(("each", "way"), ways, ids=[f"{each.fault.name}-{way}" for each, way in ways])


def server(mode: str, name: str, way: str, web: RawHttp) -> UpstreamSpec:
    """A server that misbehaves in this way, or not at all."""
    start = 0.5 if mode == "never_answers" else 10.0
    return (raw if way == "stdio" else web.spec)(mode, name, start_timeout=start)


def expected(each: UpstreamFault, way: str) -> Outcome:
    """What is to become of it."""
    outcome = each.stdio if way == "stdio" else each.http
    assert outcome is not None
    return outcome


@each_way(CALLS)
async def test_a_fault_in_a_call(each: UpstreamFault, way: str, web: RawHttp) -> None:
    outcome = expected(each, way)
    timeout = TIMEOUT if outcome.error == "timeout" else PATIENCE
    servers = server(each.fault.name, "hostile", way, web), server("behaves", "good", way, web)
    async with opened(*servers, default_timeout=PATIENCE) as here:
        tools = here.tools()
        assert {"hostile.poke", "good.poke"} <= {tool.label for tool in await tools.list_tools()}
        good = await call(tools, "good__poke")
        computed = time.process_time()
        async with contained(each.fault, way, within=timeout):
            result = await call(here.tools(timeout=timeout), "hostile__poke")
        assert time.process_time() - computed < CPU_SECONDS
        assert (result.error_type or "", outcome.words in result.text) == (outcome.error, True), result.text[:1000]
        if outcome.error:
            assert "`hostile.poke`" in result.text
            assert "\nhint: " in result.text
        assert result.uncertain == bool(outcome.error and not outcome.not_taken), result.text
        assert await call(tools, "good__poke") == good
        with anyio.fail_after(PATIENCE):
            while (again := await call(tools, "hostile__well")).error_type == "unavailable":
                assert "was cut off" in again.text
        assert again.text == "well"
    assert await none_running(0)


@each_way(LISTS)
async def test_a_fault_in_a_list(each: UpstreamFault, way: str, web: RawHttp) -> None:
    outcome = expected(each, way)
    timeout = TIMEOUT if each.fault.name == "mute_list" else PATIENCE
    hostile = server(each.fault.name, "hostile", way, web)
    first, last = (server("behaves", name, way, web) for name in ("first", "last"))
    async with opened(first, hostile, last, default_timeout=timeout) as here:
        tools = here.tools()
        assert len(await here.tools("first", "last").list_tools()) == 4
        async with contained(each.fault, way, within=timeout):
            listed = [tool.label for tool in await tools.list_tools()]
        assert [label for label in listed if not label.startswith("hostile.")] == [
            "first.poke",
            "first.well",
            "last.poke",
            "last.well",
        ]
        assert len(set(listed)) == len(listed)
        told = [notice for notice in here.notices if notice.scope_id == "execution"]
        if outcome.error:
            assert outcome.words in tools.unavailable["hostile"]
            assert (await call(tools, "hostile__poke")).error_type == outcome.error
            assert (told[-1].server, told[-1].kind) == ("hostile", "unavailable")
        else:
            assert 1 <= len(listed) - 4 <= 1000
            assert outcome.words in {notice.kind for notice in told}
        assert (await call(tools, "last__poke")).text == "ok"
    assert await none_running(0)
