"""What becomes of work when its client goes away, over HTTP with a real socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from mcp.client import Client

from server.app import Blueprint
from server.http_face.app import Building, over_http
from server.http_face.listen import parse_address
from server.serve import Serving
from tests.support.models import ScriptedModel, gate, say
from tests.support.service import OneModel, settings_of

CONFIG = "agents: {Left: {description: looks left}}\nserve: {on_disconnect: WISH}\n"


@dataclass(frozen=True)
class Served:
    """A server on a real socket, and the model behind it."""

    url: str
    model: ScriptedModel
    serving: Serving


@asynccontextmanager
async def served(folder: Path, wish: str, opened: anyio.Event) -> AsyncIterator[Served]:
    """`outrider serve --http` in this process, with a scripted model."""
    model = ScriptedModel({"Left": [gate(opened, say("left"))]})
    settings = settings_of(folder, CONFIG.replace("WISH", wish))
    serving = Serving(lambda: Blueprint(settings, folder / "outrider.db", models=OneModel(model)))
    urls: list[str] = []
    listening = anyio.Event()

    def tell(url: str) -> None:
        urls.append(url)
        listening.set()

    transport = over_http(Building(settings.serve.http, {}, serving), parse_address("127.0.0.1:0"), tell)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(serving.run, transport, name="serve")
            await listening.wait()
            yield Served(urls[0], model, serving)
            group.cancel_scope.cancel()


@pytest.mark.parametrize(("wish", "status"), [("keep", "running"), ("finish", "running"), ("cancel", "cancelled")])
async def test_a_session_that_ends_takes_its_work_along_only_if_that_is_wanted(
    tmp_path: Path, wish: str, status: str
) -> None:
    opened = anyio.Event()
    async with served(tmp_path, wish, opened) as server:
        async with Client(server.url, mode="legacy") as client:
            started = await client.call_tool("dispatch_agent", {"name": "Left", "task": "look"})
            await server.model.started("Left")
        execution = started.structured_content["execution_id"]
        async with Client(server.url) as another:
            if status == "cancelled":
                with anyio.fail_after(5):
                    await (await server.serving.service.dispatcher()).wait(execution)
            seen = await another.call_tool("get_result", {"execution_id": execution, "wait_seconds": 0})
            opened.set()
            ended = await another.call_tool("get_result", {"execution_id": execution, "wait_seconds": 20})

    assert seen.structured_content["status"] == status
    assert ended.structured_content["status"] == ("cancelled" if wish == "cancel" else "completed")
