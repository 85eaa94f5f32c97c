"""Upstream servers over streamable HTTP: the same promises as over stdio."""

import socket
import time

import anyio
import anyio.lowlevel
import pytest

from registry.specs.upstreams import UpstreamSpec
from tests.support.upstream_specs import call, opened, raw_http, sdk_http


def web(port: int) -> UpstreamSpec:
    return UpstreamSpec(name="web", url=f"http://127.0.0.1:{port}/mcp")


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
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
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


@pytest.mark.parametrize("mode", ["redirect_host", "redirect_metadata", "redirect_get", "redirect_loop"])
async def test_headers_are_sent_and_never_follow_a_redirect(mode: str) -> None:
    with raw_http() as server:
        spec = server.spec(mode, headers={"authorization": "Bearer canary"})
        async with opened(spec) as here:
            assert (await call(here.tools(), f"{mode}__poke")).is_error
        seen = server.seen(spec)
        assert seen
        assert all(headers["authorization"] == "Bearer canary" for headers in seen)
        assert server.seen(spec, "/moved") == []


async def test_a_redirect_to_the_same_address_with_a_slash_is_followed() -> None:
    with raw_http() as server:
        async with opened(server.spec("redirect_slash")) as here:
            assert (await call(here.tools(), "redirect_slash__poke")).text == "ok"


async def test_a_session_the_server_forgot_is_opened_again_and_the_call_is_not_repeated_by_itself() -> None:
    with raw_http() as server:
        async with opened(server.spec("forgets")) as here:
            tools = here.tools()
            lost = await call(tools, "forgets__poke")
            assert (lost.error_type, "has forgotten the session" in lost.text) == ("unavailable", True)
            assert (await call(tools, "forgets__poke")).text == "ok"
            assert here.kinds() == ["lost"]


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
