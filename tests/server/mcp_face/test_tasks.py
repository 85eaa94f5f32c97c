"""Executions as MCP tasks: one id, durable before it is told, really cancelled."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from server.mcp_face.introduction import TASKS
from tests.server.mcp_face.test_tools import CONFIG
from tests.support.face import Face, face
from tests.support.models import crash, fail, gate, say
from tests.support.reading import dispatch
from tests.support.tasks import IDENTIFIER, Tasks, ask


@asynccontextmanager
async def task_client(opened: Face) -> AsyncIterator[tuple[Client, Tasks]]:
    """A client that declares the extension."""
    tasks = Tasks()
    async with opened.client(extensions=[tasks]) as caller:
        yield caller.client, tasks


async def started(client: Client, tasks: Tasks, tool: str, **arguments: Any) -> str:
    """The id of a task that a call became."""
    await client.call_tool(tool, arguments)
    return tasks.handles[-1].task_id


async def ended(client: Client, task: str) -> dict[str, Any]:
    """A task at its end: what ends is waited for by asking, as clients do."""
    return await until(client, task, lambda status: status != "working")


async def until(client: Client, task: str, condition: Callable[[str], bool]) -> dict[str, Any]:
    """A task once its status is as wanted."""
    while True:
        seen = await ask(client, "get", task)
        if condition(seen["status"]):
            return seen
        await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("tool", ["dispatch_agent", "run_agent"])
async def test_a_call_becomes_a_task_whose_id_is_the_execution(tmp_path: Path, tool: str) -> None:
    async with face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened, task_client(opened) as (client, tasks):
        task = await started(client, tasks, tool, name="Left", task="look")
        [row] = opened.bench.sql("select id from executions")
        done = await ended(client, task)

    assert TASKS == IDENTIFIER
    assert task == row["id"]
    assert done["status"] == "completed"
    assert done["result"]["structuredContent"]["result"]["output"] == "left"
    assert done["result"]["isError"] is False
    assert "left" in done["result"]["content"][0]["text"]


async def test_a_chain_is_a_task_too_and_wrong_arguments_are_refused_without_one(tmp_path: Path) -> None:
    scripts = {"Left": [say("left")], "Right": [say("right")], "SynthesisAgent": [say("both")]}
    async with face(tmp_path, CONFIG, scripts) as opened, task_client(opened) as (client, tasks):
        task = await started(client, tasks, "run_chain", chain="look", task="look")
        done = await ended(client, task)
        refused = await client.call_tool("run_agent", {"name": "Left"})

    assert done["result"]["structuredContent"]["agent"] == "look"
    assert refused.is_error
    assert len(tasks.handles) == 1


async def test_cancelling_a_task_stops_its_whole_tree(tmp_path: Path) -> None:
    never = anyio.Event()
    scripts = {"Lead": [dispatch("Left"), say("waiting")], "Left": [gate(never, say("never"))]}
    async with face(tmp_path, CONFIG, scripts) as opened, task_client(opened) as (client, tasks):
        task = await started(client, tasks, "dispatch_agent", name="Lead", task="lead")
        await opened.model.started("Left")
        acknowledged = await ask(client, "cancel", task)
        done = await ended(client, task)
        again = await ask(client, "cancel", task)

    assert set(acknowledged) == set(again) == {"resultType", "_meta"}
    assert done["status"] == "cancelled"
    assert "result" not in done
    assert opened.bench.statuses() == {"Lead": ["cancelled"], "Left": ["cancelled"]}


async def test_what_failed_at_its_work_is_completed_with_an_error_and_only_our_own_faults_are_failed(
    tmp_path: Path,
) -> None:
    scripts = {"Left": [fail()], "Right": [crash(RuntimeError("a bug"))]}
    async with face(tmp_path, CONFIG, scripts) as opened, task_client(opened) as (client, tasks):
        left = await ended(client, await started(client, tasks, "run_agent", name="Left", task="look"))
        right = await ended(client, await started(client, tasks, "run_agent", name="Right", task="look"))

    assert (left["status"], left["result"]["isError"]) == ("completed", True)
    assert (right["status"], right["error"]["code"]) == ("failed", -32603)
    assert "result" not in right
    assert "a bug" not in str(right)


async def test_tasks_need_the_extension_and_a_task_that_exists(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {}) as opened:
        codes = []
        async with opened.client() as caller, task_client(opened) as (client, _):
            for asking in (caller.client, client):
                with pytest.raises(MCPError) as refused:
                    await ask(asking, "get", "nobody")
                codes.append(refused.value.error.code)
        async with opened.client("legacy") as caller:
            with pytest.raises(MCPError) as refused:
                await ask(caller.client, "get", "nobody")
            codes.append(refused.value.error.code)

    assert codes == [-32021, -32602, -32601]
