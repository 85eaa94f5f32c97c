"""One scenario and every kind of error, for the clients of three SDKs, in both eras, over stdio and HTTP."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.clients.connections import python, typescript, typescript_1
from tests.clients.scenario import TERMINAL, Connected, perform
from tests.clients.served import Served, serve, serve_rehearsed
from tests.clients.stage import stage
from tests.support.requirement import requirement

Connect = Callable[[Served | str, str], AbstractAsyncContextManager[Connected]]

CLIENTS: list[tuple[Connect, str]] = [
    (python, "auto"),
    (python, "legacy"),
    (typescript, "auto"),
    (typescript, "legacy"),
    (typescript_1, "legacy"),
]
NAMES = [f"{connect.__name__}, {mode}" for connect, mode in CLIENTS]
SECONDS = 50
ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("get_result", {"execution_id": "nobody"}, "error: you have not dispatched an execution `nobody`\n  configuration: "),
    ("wait_for", {"execution_ids": []}, "error: the arguments of `wait_for` were refused: "),
    ("cancel_agent", {"execution_id": "nobody"}, "error: "),
    ("send_message", {"execution_id": "nobody", "text": "hello"}, "error: "),
    ("read_result", {"execution_id": "nobody"}, "error: nothing to read under this id\n  configuration: "),
    ("dispatch_agent", {"name": "Quikc", "task": "count"}, "error: "),
    ("run_agent", {"name": "Quick", "task": " "}, "error: the arguments of `run_agent` were refused: "),
    ("list_executions", {"status": "finished"}, "error: "),
    ("get_execution_tree", {"execution_id": "nobody"}, "error: "),
    ("query_executions", {"sql": "delete from executions"}, "error: "),
    ("no_such_tool", {}, "error: there is no tool `no_such_tool`\nhint: "),
]


@requirement("S2-MC-1")
@pytest.mark.parametrize(("connect", "mode"), CLIENTS, ids=NAMES)
async def test_a_client_plays_the_whole_scenario_over_stdio(tmp_path: Path, connect: Connect, mode: str) -> None:
    with anyio.fail_after(SECONDS):
        async with stage() as opened, connect(serve(tmp_path, opened.config), mode) as client:
            ends = await perform(client, opened.play("alone"))

    assert ends == TERMINAL


@requirement("S2-MC-1")
async def test_every_client_plays_the_whole_scenario_over_http_at_the_same_time(tmp_path: Path) -> None:
    ends: dict[str, dict[str, str]] = {}

    async def play(name: str, connect: Connect, mode: str) -> None:
        async with connect(url, mode) as client:
            ends[name] = await perform(client, opened.play(name))

    with anyio.fail_after(SECONDS):
        async with (
            stage() as opened,
            serve(tmp_path, opened.config).over_http() as url,
            anyio.create_task_group() as group,
        ):
            for name, (connect, mode) in zip(NAMES, CLIENTS, strict=True):
                group.start_soon(play, name, connect, mode)

    assert ends == dict.fromkeys(NAMES, TERMINAL)


async def read_errors(client: Connected) -> None:
    """Cause every kind of error, and read it; then something that works."""
    for tool, arguments, begins in ERRORS:
        text = await client.refused(tool, **arguments)
        assert text.startswith(begins), (tool, text)
        assert "\nhint: " in text
    assert (await client.call("run_agent", name="Quick", task="count"))["result"]["output"] == "42 files"


@pytest.mark.parametrize("connect", [typescript, typescript_1])
async def test_a_client_reads_every_error_over_stdio(tmp_path: Path, connect: Connect) -> None:
    with anyio.fail_after(SECONDS):
        async with connect(serve_rehearsed(tmp_path), "legacy") as client:
            await read_errors(client)


async def test_every_client_reads_every_error_over_http(tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with serve_rehearsed(tmp_path).over_http() as url:
            for connect, mode in CLIENTS:
                async with connect(url, mode) as client:
                    await read_errors(client)
