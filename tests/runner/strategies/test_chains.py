"""Chains: stages in order, agents of a stage together, results merged; children of stage agents stay theirs."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from runner.llm.protocol import Request
from runner.service.order import Order
from server.cli.show.tree_model import TreeModel
from tests.support.models import Turn, call, fail, gate, hang, say
from tests.support.requirement import requirement
from tests.support.service import bench

THREE_STAGES = """
agents:
  First: {description: one}
  Second: {description: two}
  Third: {description: three}
agent_chains:
  walk:
    alert_types: [Slow]
    stages:
      - {name: one, agents: [First]}
      - {name: two, agents: [Second]}
      - {name: three, agents: [Third]}
"""


def first_text(request: Request) -> str:
    return request.messages[0].text


@requirement("S2-CH-1", "S2-CH-7", "S2-PR-10")
async def test_each_stage_sees_the_outputs_of_the_stages_before_it(tmp_path: Path) -> None:
    scripts = {"First": [say("alpha found")], "Second": [say("beta found")], "Third": [say("gamma concluded")]}
    async with bench(tmp_path, THREE_STAGES, scripts) as service:
        ended = await service.run("walk", "find out")
        assert ended.result is not None
        assert ended.result.text == "gamma concluded"
        assert "alpha" not in first_text(service.model.of("First")[0])
        assert "alpha found" in first_text(service.model.of("Second")[0])
        third = first_text(service.model.of("Third")[0])
        assert third.index("alpha found") < third.index("beta found")
        rows = service.sql("select agent, role, depth, stage, parent_execution_id from executions order by created_at")
        assert [row["role"] for row in rows] == ["root", "stage", "stage", "stage"]
        assert {row["depth"] for row in rows} == {0}
        assert {row["parent_execution_id"] for row in rows[1:]} == {ended.id}


async def test_a_stage_that_failed_of_something_passing_is_worth_another_attempt(tmp_path: Path) -> None:
    async with bench(tmp_path, THREE_STAGES, {"First": [fail()]}) as service:
        ended = await service.run("walk")
        assert ended.result is not None
        assert [(each.type, each.recoverable) for each in ended.result.errors] == [("stage_failed", True)]


@requirement("S2-CH-2")
async def test_a_failed_stage_stops_the_chain_and_skips_the_rest(tmp_path: Path) -> None:
    scripts = {
        "First": [say("alpha found")],
        "Second": [fail("invalid_request", "no", recoverable=False)],
        "Third": [say("x")],
    }
    async with bench(tmp_path, THREE_STAGES, scripts) as service:
        ended = await service.run("walk")
        assert ended.status == "failed"
        assert ended.result is not None
        assert "alpha found" in ended.result.text
        assert "stage `two` failed" in (ended.error or "")
        assert not ended.result.errors[0].recoverable  # nor was what it failed of
        assert service.statuses() == {
            "walk": ["failed"],
            "First": ["completed"],
            "Second": ["failed"],
            "Third": ["skipped"],
        }
        assert service.model.of("Third") == []
        assert service.sql("select agent from executions where finished_at is null") == []
        skipped = service.sql("select id from executions where status = 'skipped'")[0]["id"]
        with anyio.fail_after(5):
            assert (await service.dispatcher.wait(skipped)).status == "skipped"


STAGE_OF_THREE = """
agents:
  A: {{description: a}}
  B: {{description: b}}
  C: {{description: c}}
agent_chains:
  together:
    stages: [{{name: only, agents: [A, B, C], success_policy: {policy}}}]
"""


@requirement("S2-CH-3")
async def test_the_agents_of_a_stage_run_at_the_same_time(tmp_path: Path) -> None:
    everybody = anyio.Event()
    waiting: list[str] = []

    async def meet(request: Request) -> Turn:
        waiting.append(request.agent)
        if len(waiting) == 3:
            everybody.set()
        await everybody.wait()
        return say(request.agent)

    scripts = {"A": meet, "B": meet, "C": meet, "Synthesizer": [say("all three")]}
    async with bench(tmp_path, STAGE_OF_THREE.format(policy="any"), scripts) as service:
        ended = await service.run("together")
        assert ended.result is not None
        assert ended.result.text == "all three"


@requirement("S2-CH-4")
@pytest.mark.parametrize("failing", [0, 1, 2, 3])
@pytest.mark.parametrize("policy", ["any", "all"])
async def test_the_success_policy_decides_how_many_agents_must_succeed(tmp_path: Path, policy: str, failing: int) -> None:
    broken = [fail("invalid_request", "no", recoverable=False)]
    scripts = {name: broken if index < failing else [say(name)] for index, name in enumerate("ABC")}
    async with bench(tmp_path, STAGE_OF_THREE.format(policy=policy), scripts | {"Synthesizer": [say("merged")]}) as service:
        ended = await service.run("together")
        succeeds = failing == 0 if policy == "all" else failing < 3
        assert ended.status == ("completed" if succeeds else "failed")


REPLICAS = """
agents:
  Scout: {description: scouts}
agent_chains:
  many: {stages: [{name: look, agents: [{name: Scout, replicas: 3}]}]}
  one: {stages: [{name: look, agents: [Scout]}]}
"""


@requirement("S2-CH-5", "S2-CH-6", "S2-DB-5")
async def test_replicas_are_numbered_and_their_results_are_merged_in_one_call_without_tools(tmp_path: Path) -> None:
    scripts = {"Scout": [say("seen")], "Synthesizer": [say("merged")]}
    async with bench(tmp_path, REPLICAS, scripts) as service:
        ended = await service.run("many")
        assert ended.result is not None
        assert ended.result.text == "merged"
        rows = service.sql("select agent, role, position from executions where role <> 'root' order by position")
        assert [(row["agent"], row["role"]) for row in rows] == [
            ("Scout-1", "stage"),
            ("Scout-2", "stage"),
            ("Scout-3", "stage"),
            ("Synthesizer", "synthesis"),
        ]
        (synthesis_request,) = service.model.of("Synthesizer")
        assert synthesis_request.tools == ()
        assert all(f'name="Scout-{number}"' in first_text(synthesis_request) for number in (1, 2, 3))


@requirement("S2-CH-6", "S2-CH-8", "S2-DB-3", "S2-DB-4")
async def test_one_orchestrator_with_four_children_needs_no_synthesis(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {sub_agents: [Scout]}
      Scout: {description: scouts}
    agent_chains:
      hunt: {stages: [{name: look, agents: [Lead]}]}
    """
    dispatch = [call("dispatch_agent", name="Scout", task=f"part {number}") for number in range(4)]
    scripts = {
        # A failed child wakes its parent at once, so the lead may be asked once or twice more.
        "Lead": [dispatch[0] + dispatch[1] + dispatch[2] + dispatch[3], say("waiting"), say("done"), say("done")],
        "Scout": lambda request: (
            fail("invalid_request", recoverable=False) if "part 3" in first_text(request) else say("seen")
        ),
    }
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("hunt")
        assert ended.status == "completed"
        rows = service.sql("select agent, stage, status from executions where role = 'sub_agent'")
        assert {row["stage"] for row in rows} == {"look"}
        assert sorted(row["status"] for row in rows) == ["completed", "completed", "completed", "failed"]
        assert service.sql("select count(*) as n from executions where role = 'synthesis'") == [{"n": 0}]
        assert service.sql("select count(distinct stage) as n from executions where role = 'stage'") == [{"n": 1}]


@requirement("S2-CH-9", "S2-CH-10")
async def test_the_synthesizer_sees_each_child_below_its_parent_with_its_task(tmp_path: Path) -> None:
    config = """
    agents:
      East: {sub_agents: [Scout], max_concurrent_agents: 1}
      West: {sub_agents: [Scout], max_concurrent_agents: 1}
      Scout: {description: scouts}
    agent_chains:
      both: {stages: [{name: look, agents: [East, West]}]}
    """
    both = anyio.Event()

    def lead(side: str) -> list[Turn]:
        return [call("dispatch_agent", name="Scout", task=f"look {side}"), say("waiting"), say(f"{side} is clear")]

    async def scout(request: Request) -> Turn:
        if len(service.model.of("Scout")) == 2:  # each parent has a slot of its own
            both.set()
        await both.wait()
        return say(f"nothing {first_text(request).removeprefix('look ')}")

    scripts = {"East": lead("east"), "West": lead("west"), "Scout": scout, "Synthesizer": [say("all clear")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("both")
        (synthesis_request,) = service.model.of("Synthesizer")
        text = first_text(synthesis_request)
        for side in ("east", "west"):
            assert f"{side} is clear\n- Scout (completed): look {side}" in text
        for side, request in (("east", service.model.of("East")[-1]), ("west", service.model.of("West")[-1])):
            (delivered,) = request.messages[-1].delivered
            assert delivered.text == f"nothing {side}"
            assert service.sql(
                "select distinct child.task from events join executions as child on child.id = events.execution_id "
                "where events.parent_execution_id = ?",
                request.execution_id,
            ) == [{"task": f"look {side}"}]


@requirement("S2-CH-9", "S2-LE-19")
async def test_a_tree_of_any_depth_is_shown_whole_to_every_reader(tmp_path: Path) -> None:
    config = """
    agents:
      East: {sub_agents: [Scout]}
      West: {}
      Scout: {description: scouts, sub_agents: [Digger]}
      Digger: {description: digs, sub_agents: [Mole]}
      Mole: {description: is small}
    agent_chains:
      both: {stages: [{name: look, agents: [East, West]}]}
    """
    below = {"East": "Scout", "Scout": "Digger", "Digger": "Mole"}
    scripts = {
        name: [call("dispatch_agent", name=child, task=f"go, {child}"), say("waiting"), say(f"{name} is done")]
        for name, child in below.items()
    }
    others = {"West": [say("West is done")], "Mole": [say("soil")], "Synthesizer": [say("all clear")]}
    async with bench(tmp_path, config, {**scripts, **others}) as service:
        ended = await service.run("both")
        assert (
            "East is done\n- Scout (completed): go, Scout\n  - Digger (completed): go, Digger\n"
            "    - Mole (completed): go, Mole"
        ) in first_text(service.model.of("Synthesizer")[0])
        rows = await service.dispatcher.services.database.reads.tree(ended.id)
        levels = {row["agent"]: row["level"] for row in rows}
        assert levels == {"both": 0, "East": 1, "Scout": 2, "Digger": 3, "Mole": 4, "West": 1, "Synthesizer": 1}
        drawn = TreeModel.of_rows(rows, {})
        assert [node.path for node in drawn.nodes.values() if node.agent == "Mole"] == [
            "both › East (look) › Scout › Digger › Mole"
        ]


@requirement("S2-CH-11", "S2-CA-7")
async def test_cancelling_a_chain_reaches_all_agents_of_the_running_stage(tmp_path: Path) -> None:
    scripts = {"A": [hang()], "B": [hang()], "C": [gate(anyio.Event(), say("never"))]}
    async with bench(tmp_path, STAGE_OF_THREE.format(policy="any"), scripts) as service:
        started = await service.dispatcher.start(Order("together", "go"))
        with anyio.fail_after(5):
            for name in "ABC":
                await service.model.started(name)
            await service.dispatcher.cancel(started.id, "a person", "enough")
            await service.dispatcher.wait(started.id)
        assert {status for each in service.statuses().values() for status in each} == {"cancelled"}
