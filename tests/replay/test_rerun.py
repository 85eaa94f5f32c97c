"""`rerun`: a tree forked at one of its executions; what does not depend on it is kept and costs nothing."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from db.errors import UnknownExecution
from runner.errors import Refusal
from tests.examples.playing import play
from tests.support.models import call, say, shared
from tests.support.service import Bench, bench

TEAM = """
    models: {m: {model: claude-x}}
    agents:
      Lead: {description: leads, sub_agents: [Left, Right]}
      Left: {description: looks left}
      Right: {description: looks right}
    agent_chains:
      walk: {stages: [{name: one, agents: [Left]}, {name: two, agents: [Right]}, {name: three, agents: [Left]}]}
    """

SCRIPTS: dict[str, Any] = {
    "Lead": shared(
        call("dispatch_agent", name="Left", task="look left") + call("dispatch_agent", name="Right", task="look right"),
        *(say(f"told {number} times") for number in range(1, 9)),
    ),
    "Left": [say("left is clear")],
    "Right": [say("right is clear")],
}


async def tree(service: Bench, root: str) -> list[dict[str, Any]]:
    """The rows of a tree, in order."""
    return [dict(row) for row in await service.dispatcher.services.database.reads.tree_rows(root)]


async def rerun(service: Bench, root: str, node: str, task: str | None = None) -> list[dict[str, Any]]:
    """Fork a tree, and wait for the end of the new one; its rows."""
    with anyio.fail_after(20):
        again = await service.dispatcher.rerun(root, node, task)
        await service.dispatcher.wait(again.id)
    return await tree(service, again.id)


def one(rows: list[dict[str, Any]], agent: str, at: int = 0) -> dict[str, Any]:
    return [row for row in rows if row["agent"] == agent][at]


async def test_what_was_beside_the_node_is_kept_and_its_model_is_not_asked(tmp_path: Path) -> None:
    async with bench(tmp_path, TEAM, SCRIPTS) as service:
        first = await service.run("Lead")
        before = await tree(service, first.id)
        asked = len(service.model.requests)
        after = await rerun(service, first.id, one(before, "Left")["id"], "look left and up")
        [forked] = service.sql("select * from events where type = 'execution.forked'")
        calls = service.sql("select arguments from tool_calls where execution_id = ?", after[0]["id"])
        agents = [request.agent for request in service.model.requests[asked:]]

    assert [row["status"] for row in after] == ["completed"] * 3
    assert agents.count("Right") == 0
    assert "Left" in agents
    assert one(after, "Left")["task"] == "look left and up"
    assert one(after, "Right")["input_tokens"] == 0
    renamed = one(before, "Right")["result"].replace(one(before, "Right")["id"], one(after, "Right")["id"])
    assert one(after, "Right")["result"] == renamed
    assert {row["id"] for row in before}.isdisjoint(row["id"] for row in after)
    assert '"look left and up"' in calls[0]["arguments"]
    assert first.id in forked["payload"]


async def test_a_chain_is_done_again_from_the_stage_of_the_node(tmp_path: Path) -> None:
    async with bench(tmp_path, TEAM, SCRIPTS) as service:
        first = await service.run("walk")
        before = await tree(service, first.id)
        asked = len(service.model.requests)
        after = await rerun(service, first.id, one(before, "Right")["id"])
        agents = [request.agent for request in service.model.requests[asked:]]

    assert agents == ["Right", "Left"]
    assert [(row["agent"], row["stage"], row["turns"]) for row in after[1:]] == [
        ("Left", "one", 1),
        ("Right", "two", 1),
        ("Left", "three", 1),
    ]
    assert [row["input_tokens"] > 0 for row in after[1:]] == [False, True, True]


async def test_the_original_is_left_as_it_was(tmp_path: Path) -> None:
    async with bench(tmp_path, TEAM, SCRIPTS) as service:
        first = await service.run("Lead")
        before = await tree(service, first.id)
        await rerun(service, first.id, first.id, "again")
        assert await tree(service, first.id) == before


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
async def test_plans_iterations_and_routes_are_done_again_from_each_of_their_executions(tmp_path: Path) -> None:
    async with play("nested", tmp_path) as played:
        service = played.service
        first = await service.run("Desk", "How are the lighthouses?")
        before = await tree(service, first.id)
        turns = sum(row["turns"] for row in before)
        for agent in ("Classifier", "Planner", "Survey", "Inspector", "Reader", "Completer", "Composer"):
            after = await rerun(service, first.id, one(before, agent)["id"])
            assert [row["status"] for row in after] == ["completed"] * len(before), agent
            spent = [row["turns"] for row in after if row["input_tokens"]]
            assert sum(spent) <= turns
            assert after[0]["result"].split('"metadata"')[0] == before[0]["result"].split('"metadata"')[0]


async def test_an_execution_elsewhere_and_an_open_tree_are_refused(tmp_path: Path) -> None:
    async with bench(tmp_path, TEAM, SCRIPTS) as service:
        first, other = await service.run("Lead"), await service.run("Left")
        with pytest.raises(UnknownExecution):
            await service.dispatcher.rerun(first.id, other.id, None)
        with pytest.raises(UnknownExecution):
            await service.dispatcher.rerun("nothing", None, None)


async def test_a_command_is_refused_because_it_changes_work_items(tmp_path: Path) -> None:
    async with play("crew", tmp_path) as crew:
        said = await crew.say("sam", "/research 195")
        with pytest.raises(Refusal, match="carried out a command"):
            await crew.service.dispatcher.rerun(said.execution, None, None)
