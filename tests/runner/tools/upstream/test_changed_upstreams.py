"""Upstream servers that change their tools while they are used, in both protocol eras and over both transports."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from registry.specs.upstreams import UpstreamSpec
from tests.support.upstream_specs import Opened, call, opened, raw, raw_http, sdk, sdk_http


@asynccontextmanager
async def changing(era: str, way: str) -> AsyncIterator[tuple[Opened, str]]:
    """A server, and the tool whose call changes its list."""
    if era == "modern" and way == "stdio":
        async with opened(sdk("growing", "server")) as here:
            yield here, "grow"
    elif era == "modern":
        with sdk_http(mode="growing") as port:
            async with opened(UpstreamSpec(name="server", url=f"http://127.0.0.1:{port}/mcp")) as here:
                yield here, "grow"
    elif way == "stdio":
        async with opened(raw("changes", "server")) as here:
            yield here, "poke"
    else:
        with raw_http() as web:
            async with opened(web.spec("changes", "server")) as here:
                yield here, "poke"


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_change_is_heard_told_once_and_seen_by_the_next_caller_that_lists(era: str, way: str) -> None:
    async with changing(era, way) as (here, changer):
        running = here.tools(scope="running")
        before = [tool.label for tool in await running.list_tools()]
        await call(running, f"server__{changer}")
        with anyio.fail_after(5):
            while "list_changed" not in here.kinds():
                await anyio.lowlevel.checkpoint()
        after = [tool.label for tool in await here.tools(scope="next").list_tools()]
        assert len(after) == len(before) + 1
        assert after[: len(before)] == before
        assert [(notice.kind, notice.scope_id) for notice in here.notices] == [("list_changed", "running")]
        assert [set(listed.fingerprints) for listed in here.heard] == [
            {label.removeprefix("server.") for label in labels} for labels in (before, after)
        ]


async def test_what_happens_to_a_shared_server_is_told_to_each_execution_that_has_it_and_to_no_other() -> None:
    async with opened(raw("dies"), raw("pid")) as here:
        users = [here.tools("dies", scope=f"user {number}") for number in range(3)]
        await here.tools("pid", scope="bystander").list_tools()
        await users[2].close()
        await call(users[0], "dies__poke")
        assert sorted((notice.kind, notice.scope_id) for notice in here.notices) == [("lost", "user 0"), ("lost", "user 1")]
