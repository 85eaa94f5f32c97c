"""One scenario, played by the clients of two SDKs, in both eras, over stdio and HTTP."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from tests.clients.connections import python, typescript
from tests.clients.scenario import TERMINAL, Connected, perform
from tests.clients.served import Served, serve
from tests.clients.stage import stage
from tests.support.requirement import requirement

Connect = Callable[[Served | str, str], AbstractAsyncContextManager[Connected]]

CLIENTS: list[tuple[Connect, str]] = [(python, "auto"), (python, "legacy"), (typescript, "auto"), (typescript, "legacy")]
NAMES = [f"{connect.__name__}, {mode}" for connect, mode in CLIENTS]
SECONDS = 50


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
