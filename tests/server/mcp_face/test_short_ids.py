"""A short id is as good as a whole one, in every call, among the caller's own executions; and what is a caller's own."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import TextResourceContents

from db.ids import SHORT
from db.store.engine import sqlite_library
from runner.messages import ToolCall
from runner.tools.dispatch import ASK_FOR_IT
from server.identity import Identity
from server.mcp_face.calls import ERROR, called
from server.mcp_face.client import Client, ClientInfo
from tests.server.mcp_face.test_tasks import started, task_client, until
from tests.server.mcp_face.test_tools import CONFIG, ERAS
from tests.support.face import Face, face
from tests.support.models import call, gate, say, shared
from tests.support.reading import answer, dispatch, dispatched
from tests.support.service import bench
from tests.support.tasks import ask

ADA, BOB = Identity("ada"), Identity("bob")


@ERAS
async def test_every_tool_and_resource_takes_a_short_id(tmp_path: Path, era: str) -> None:
    never = anyio.Event()
    scripts = {"Left": shared(say("left"), say("and more")), "Right": [gate(never, say("never"))]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client(era) as caller:
        left = (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"]
        right = (await caller.call("dispatch_agent", name="Right", task="look"))["execution_id"]
        ends, begins = left[-SHORT:], left[:-1]
        one = [await caller.call("get_result", execution_id=each) for each in (ends, begins)]
        both = await caller.call("wait_for", execution_ids=[ends, right[-SHORT:]], mode="any")
        tree = await caller.call("get_execution_tree", execution_id=ends)
        part = await caller.call("read_result", execution_id=ends)
        said = await caller.call("send_message", execution_id=right[-SHORT:], text="hurry")
        stopped = await caller.call("cancel_agent", execution_id=right[-SHORT:])
        more = await caller.call("send_message", execution_id=ends, text="go on")
        for part_of in ("", "/tree", "/transcript"):
            [read] = (await caller.client.read_resource(f"execution://{ends}{part_of}")).contents
            assert isinstance(read, TextResourceContents)
            assert left in read.text

    assert [each["execution_id"] for each in one] == [left, left]
    assert [each["execution_id"] for each in both["executions"]] == [left, right]
    assert (tree["tree"]["execution_id"], part["text"]) == (left, "left")
    assert (said["execution_id"], stopped["execution_id"], stopped["status"]) == (right, right, "cancelled")
    assert more["continues"] == left


async def test_a_task_is_found_by_a_short_id(tmp_path: Path) -> None:
    never = anyio.Event()
    async with (
        face(tmp_path, CONFIG, {"Left": [gate(never, say("never"))]}) as opened,
        task_client(opened) as (client, tasks),
    ):
        task = await started(client, tasks, "dispatch_agent", name="Left", task="look")
        working = await ask(client, "get", task[-SHORT:])
        await ask(client, "cancel", task[-SHORT:])
        ended = await until(client, task[-SHORT:], lambda status: status != "working")

    assert (working["taskId"], ended["taskId"], ended["status"]) == (task, task, "cancelled")


async def asked(opened: Face, who: Identity, tool: str, **arguments: Any) -> tuple[Mapping[str, Any] | None, str]:
    """The structured answer of a caller's call, or None, and what kind of error it was."""
    result = await called(Client(opened.bench.dispatcher, ClientInfo(who)), ToolCall("1", tool, arguments))
    return result.structured_content, ((result.meta or {}).get(ERROR) or {}).get("message", "")


def renamed(opened: Face, names: Mapping[str, str]) -> None:
    """Give executions that have ended other ids."""
    with closing(sqlite_library().connect(opened.bench.database)) as connection, connection:
        connection.execute("pragma foreign_keys = off")
        for old, new in names.items():
            connection.execute("update executions set id = ?, root_execution_id = ? where id = ?", (new, new, old))


async def test_a_short_id_means_only_ones_own_executions(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened:
        ids = []
        for who in (ADA, BOB, BOB):
            ran, _ = await asked(opened, who, "run_agent", name="Left", task="look", wait_seconds=20)
            assert ran is not None
            ids.append(ran["execution_id"])
        adas, bobs, other = ids[0], ids[1][:-4] + ids[0][-4:], ids[2][:-4] + ids[0][-4:]
        alone, _ = await asked(opened, ADA, "get_result", execution_id=adas[-4:])
        _, foreign = await asked(opened, BOB, "get_result", execution_id=adas[-6:])
        _, unknown = await asked(opened, BOB, "get_result", execution_id="zzzzzz")
        renamed(opened, {ids[1]: bobs, ids[2]: other})
        still, _ = await asked(opened, ADA, "get_result", execution_id=adas[-4:])
        _, several = await asked(opened, BOB, "get_result", execution_id=adas[-4:])

    assert alone is not None
    assert alone["execution_id"] == adas
    assert foreign.replace(adas[-6:], "zzzzzz") == unknown
    assert still is not None, "executions of others made a short id ambiguous"
    assert several == f"2 executions end with `{adas[-4:]}`"


@pytest.mark.parametrize("uri", ["execution://{}", "execution://{}/tree"])
async def test_a_resource_whose_short_id_means_several_says_so(tmp_path: Path, uri: str) -> None:
    async with face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened, opened.client() as caller:
        first, second = [
            (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"] for _ in range(2)
        ]
        renamed(opened, {second: second[:-4] + first[-4:]})
        with pytest.raises(MCPError, match=r"2 executions end with .*: give more characters"):
            await caller.client.read_resource(uri.format(first[-4:]))


@ERAS
async def test_list_agents_lists_what_this_client_started_and_nothing_of_others(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {"Left": [say("left")], "Right": [say("right")]}) as opened:
        await opened.bench.run("Left", "from a shell")
        async with opened.client(era) as another, opened.client(era) as caller:
            before = await caller.call("list_agents")
            await another.call("run_agent", name="Left", task="of another client", wait_seconds=20)
            own = (await caller.call("run_agent", name="Right", task="mine", wait_seconds=20))["execution_id"]
            after = await caller.call("list_agents")
            everything = await caller.call("list_executions")

    assert before["executions"] == []
    assert [each["execution_id"] for each in after["executions"]] == [own]
    assert len(everything["executions"]) == 3  # one machine, one user: a list of its own has them all


async def test_a_principal_is_listed_its_own_and_told_its_own_usual_time(tmp_path: Path) -> None:
    never = anyio.Event()
    async with face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened:
        await asked(opened, ADA, "run_agent", name="Left", task="quick", wait_seconds=20)
        opened.model.scripts["Left"] = [gate(never, say("never"))]
        adas, _ = await asked(opened, ADA, "run_agent", name="Left", task="again", wait_seconds=0)
        bobs, _ = await asked(opened, BOB, "run_agent", name="Left", task="first", wait_seconds=0)
        listed, _ = await asked(opened, BOB, "list_agents")

    assert adas is not None
    assert bobs is not None
    assert listed is not None
    assert "usually_seconds" in adas["progress"]
    assert "usually_seconds" not in bobs["progress"]
    assert [each["execution_id"] for each in listed["executions"]] == [bobs["execution_id"]]


async def test_an_agent_may_name_its_children_by_short_ids(tmp_path: Path) -> None:
    scripts = {
        "Lead": [
            dispatch("Left"),
            lambda request: call("get_result", execution_id=dispatched(request)[0][-SHORT:], wait_seconds=20),
            call("get_result", execution_id="zzzzzz", wait_seconds=0),
            say("done"),
        ],
        "Left": [say("left")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")
        told = answer(service.model.of("Lead")[2])
        refused = str(service.model.of("Lead")[3].messages[-1].content)

    assert (told["status"], told["result"]["output"]) == ("completed", "left")
    assert "you have not dispatched an execution `zzzzzz`" in refused
    assert ASK_FOR_IT not in refused
