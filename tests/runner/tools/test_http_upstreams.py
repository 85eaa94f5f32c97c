"""Upstream servers over streamable HTTP: the same promises as over stdio."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import anyio.lowlevel
import pytest

from registry.upstreams import UpstreamSpec
from tests.support.raw_http import raw_http
from tests.support.upstream_specs import ROOT, call, opened, raw


@contextmanager
def sdk_http(port: int = 0) -> Iterator[int]:
    """Run the well-behaved server over HTTP."""
    command = [sys.executable, "-m", "tests.support.upstream_server", "plain", "http", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def at(url: str, **settings: object) -> UpstreamSpec:
    return UpstreamSpec(name="web", url=url, **settings)  # type: ignore[arg-type]


def web(port: int) -> UpstreamSpec:
    return at(f"http://127.0.0.1:{port}/mcp")


async def test_tools_are_listed_and_called_and_a_cancel_reaches_the_server() -> None:
    with sdk_http() as port:
        async with opened(web(port)) as here:
            tools = here.tools()
            labels = [tool.label for tool in await tools.list_tools()]
            assert "web.echo" in labels
            assert '"value": 1' in (await call(tools, "web__echo", value=1)).text
            assert (await call(tools, "web__error")).text == "the disk is full"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: call(tools, "web__slow"))
                await call(tools, "web__started")
                tasks.cancel_scope.cancel()
            assert (await call(tools, "web__cancelled")).text == "cancelled"


async def test_a_server_that_went_away_is_an_error_at_once_and_reached_again_when_it_is_back() -> None:
    with sdk_http() as port:
        pass
    async with opened(web(port), default_timeout=10) as here:
        tools = here.tools()
        assert await tools.list_tools() == []
        assert "cannot be reached" in tools.unavailable["web"]
        with sdk_http(port):
            with anyio.fail_after(10):
                while not await tools.list_tools():
                    await anyio.lowlevel.checkpoint()
            first = (await call(tools, "web__pid")).text
            assert first.isdigit()
        began = time.monotonic()
        assert (await call(tools, "web__pid")).error_type in ("unavailable", "tool_error")
        assert time.monotonic() - began < 2
        with sdk_http(port):
            with anyio.fail_after(10):
                while (again := await call(tools, "web__pid")).is_error:
                    await anyio.lowlevel.checkpoint()
            assert again.text != first


async def test_headers_are_sent_and_never_follow_a_redirect_to_another_origin() -> None:
    with raw_http("ok") as other, raw_http("redirect", other.url) as server:
        async with opened(at(server.url, headers={"authorization": "Bearer canary"})) as here:
            await here.tools().list_tools()
            result = await call(here.tools(), "web__poke")
        assert result.is_error
        assert all(request["authorization"] == "Bearer canary" for request in server.seen)
        assert other.seen == []


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("unauthorised", "answered HTTP 401 Unauthorized"),
        ("broken", "answered HTTP 503 Service Unavailable"),
        ("redirect", "not followed"),
        ("breaks_off", "broke off"),
        ("huge", "longer than 10 MB"),
        ("hangs", "did not answer within 1 s"),
    ],
)
async def test_hostile_answers_are_clear_errors_in_time_and_harm_no_other_call(mode: str, words: str) -> None:
    with raw_http(mode, "http://169.254.169.254/latest/meta-data") as server:
        async with opened(at(server.url), raw("pid"), default_timeout=1.0) as here:
            tools = here.tools()
            good = await call(tools, "pid__poke")
            for _ in range(2):
                began = time.monotonic()
                result = await call(tools, "web__poke")
                assert time.monotonic() - began < 2
                assert result.is_error
                assert words in result.text
            assert await call(tools, "pid__poke") == good
            assert [tool.label for tool in await tools.list_tools()] == ["web.poke", "pid.poke"]


async def test_one_failing_request_ends_no_other_one() -> None:
    with sdk_http() as port:
        async with opened(web(port)) as here:
            tools = here.tools()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: call(tools, "web__slow"))
                await call(tools, "web__started")
                for _ in range(5):
                    assert (await call(tools, "web__refuse")).error_type == "invalid_arguments"
                tasks.cancel_scope.cancel()
            assert (await call(tools, "web__cancelled")).text == "cancelled"
