"""What a configuration says about an agent is what happens: tools, turns, overrides, names, prompts, rows."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from runner.service.order import Order
from runner.tools.dispatch import NAMES
from tests.support.models import call, crash, gate, hang, say
from tests.support.reading import dispatch, results, text_of
from tests.support.requirement import requirement
from tests.support.servers import DISPENSABLE, sdk_server
from tests.support.service import bench, settings_of


@requirement("S2-CF-2")
async def test_an_agent_without_a_description_runs_in_a_stage_but_cannot_be_dispatched(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {type: orchestrator}
      Told: {description: can be sent}
      Mute: {}
    agent_chains: {both: {stages: [{name: one, agents: [Told]}, {name: two, agents: [Mute]}]}}
    """
    scripts = {"Lead": [say("hm")], "Told": [say("told")], "Mute": [say("mute")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")
        system = service.model.of("Lead")[0].system
        assert '<agent name="Told"' in system
        assert "Mute" not in system
        await service.run("both")
        assert service.statuses()["Mute"] == ["completed"]


@requirement("S2-CF-3", "S2-VA-5")
@pytest.mark.parametrize(
    ("fields", "dispatches"),
    [
        ("type: orchestrator", True),
        ("sub_agents: [Scout]", True),
        ("type: orchestrator, sub_agents: [Scout]", True),
        ("custom_instructions: plain", False),
    ],
)
async def test_a_catalogue_gives_the_tools_whatever_the_type(tmp_path: Path, fields: str, dispatches: bool) -> None:
    config = f"agents: {{Lead: {{{fields}}}, Scout: {{description: scouts}}}}"
    async with bench(tmp_path, config, {"Lead": [say("done")]}) as service:
        await service.run("Lead")
        (request,) = service.model.of("Lead")
        assert set(NAMES).issubset({tool.name for tool in request.tools}) is dispatches
        assert ("dispatch" in request.system.lower()) is dispatches


@requirement("S2-CF-4", "S2-TN-1")
async def test_an_agent_has_the_tools_of_its_servers_and_rows_name_them_with_a_dot(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{mine: {sdk_server()}, other: {sdk_server()}}}
    agents: {{Lead: {{mcp_servers: [mine], sub_agents: [Scout]}}, Scout: {{description: scouts}}}}
    """
    scripts = {"Lead": [call("mine__echo", value=1) + dispatch("Scout"), say("waiting"), say("done")], "Scout": [say("ok")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")
        names = {tool.name for tool in service.model.of("Lead")[0].tools}
        assert "mine__echo" in names
        assert not any(name.startswith("other__") for name in names)
        rows = service.sql("select tool, server from tool_calls order by position")
        assert rows == [{"tool": "mine.echo", "server": "mine"}, {"tool": "dispatch_agent", "server": "orchestrator"}]
        told = service.sql("select payload from events where type = 'timeline_event.created' and payload like '%\"tool\"%'")
        assert [json.loads(row["payload"])["tool"] for row in told] == ["mine.echo", "dispatch_agent"]


@requirement("S2-CF-7")
async def test_max_iterations_counts_turns_and_is_twenty_unless_set(tmp_path: Path) -> None:
    config = "agents: {Two: {max_iterations: 2}, Many: {}}"
    scripts = {"*": lambda request: call("list_agents") if request.tools else say(f"{len(request.messages)}")}
    async with bench(tmp_path, config, scripts) as service:
        for name, turns in (("Two", 2), ("Many", 20)):
            ended = await service.run(name)
            assert ended.result is not None
            assert ended.result.reason == "max_iterations"
            assert sum(1 for request in service.model.of(name) if request.tools) == turns


@requirement("S2-CF-9", "S2-RG-9", "S2-RN-4")
async def test_an_override_on_a_reference_holds_for_that_use_only(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {sub_agents: [{name: Scout, max_iterations: 1}]}
      Scout: {description: scouts}
    """
    scripts = {
        "Lead": [dispatch("Scout"), say("waiting"), say("done")],
        "Scout": lambda request: (
            (call("finish", status="completed", summary="own use") if len(request.messages) > 3 else call("list_agents"))
            if request.tools
            else say("cut short")
        ),
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")
        (child,) = service.sql("select outcome, reason, turns from executions where agent = 'Scout'")
        assert (child["outcome"], child["reason"]) == ("partial", "max_iterations")
        alone = await service.run("Scout")
        assert alone.result is not None
        assert alone.result.summary == "own use"


SEED = """
agents:
  LogAnalyzer: {description: logs}
  MetricChecker: {description: metrics}
  MyOrchestrator:
    type: orchestrator
    description: "Dynamic SRE investigation orchestrator"
    custom_instructions: |
      You investigate alerts by dispatching specialized sub-agents...
    max_concurrent_agents: 5
    agent_timeout: 300s
agent_chains:
  focused-investigation:
    sub_agents: [LogAnalyzer, MetricChecker]
    stages:
      - name: investigate
        agents:
          - name: MyOrchestrator
"""


@requirement("S2-CF-10", "S2-RG-5")
async def test_the_configuration_of_the_first_design_runs_unchanged(tmp_path: Path) -> None:
    scripts = {
        "MyOrchestrator": [dispatch("LogAnalyzer") + dispatch("MetricChecker"), say("waiting"), say("found")],
        "LogAnalyzer": [say("lines")],
        "MetricChecker": [say("numbers")],
    }
    async with bench(tmp_path, SEED, scripts) as service:
        ended = await service.run("focused-investigation")
        assert ended.result is not None
        assert ended.result.text == "found"
        assert set(service.statuses()) == {"focused-investigation", "MyOrchestrator", "LogAnalyzer", "MetricChecker"}


@requirement("S2-TN-7", "S2-TN-9")
async def test_a_doubled_tool_is_noted_and_an_unknown_one_is_answered_with_the_nearest_names(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{twins: {sdk_server("duplicates")}}}
    agents: {{Solo: {{mcp_servers: [twins]}}}}
    """
    scripts = {"Solo": [call("twins__twinn"), call("twins__echo", value=2), say("done")]}
    async with bench(tmp_path, config, scripts) as service:
        assert (await service.run("Solo")).status == "completed"
        first, second, _third = service.model.of("Solo")
        assert [tool.name for tool in first.tools].count("twins__twin") == 1
        (noted,) = service.sql("select payload from events where type = 'upstream.duplicate_tool'")
        assert "twin" in noted["payload"]
        (refused,) = results(second)
        assert refused["is_error"]
        assert "`twins__twin`" in text_of(refused)


@requirement("S2-PR-7")
async def test_a_server_that_is_down_is_named_to_parents_and_to_children(tmp_path: Path) -> None:
    config = f"""
    mcp_servers: {{gone: {DISPENSABLE}}}
    agents:
      Lead: {{mcp_servers: [gone], sub_agents: [Child]}}
      Child: {{description: child, mcp_servers: [gone]}}
    """
    scripts = {"Lead": [dispatch("Child"), say("waiting"), say("done")], "Child": [say("could not look")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")
        for agent in ("Lead", "Child"):
            assert '<server name="gone">' in service.model.of(agent)[0].system


@requirement("S2-DB-9", "S2-DB-13")
async def test_a_row_tells_everything_about_an_execution_and_its_configuration_is_kept(tmp_path: Path) -> None:
    config = """
    models: {m: {model: claude-x, api_key: "${CANARY_KEY}", price: {input: 1, output: 2}}}
    agents: {Lead: {sub_agents: [Scout]}, Scout: {description: scouts}}
    """
    scripts = {"Lead": [dispatch("Scout", "look there"), say("waiting"), say("done")], "Scout": [say("seen")]}
    async with bench(tmp_path, config, scripts) as service:
        root = await service.run("Lead", "find it")
        (child,) = service.sql("select * from executions where agent = 'Scout'")
        assert child["root_execution_id"] == child["parent_execution_id"] == root.id
        assert (child["depth"], child["strategy"], child["model"], child["task"]) == (1, "loop", "claude-x", "look there")
        assert (child["status"], child["outcome"], child["error"]) == ("completed", "completed", None)
        assert json.loads(child["result"])["output"] == "seen"
        assert (child["input_tokens"], child["output_tokens"], child["turns"]) == (10, 5, 1)
        assert child["cost_usd"] == pytest.approx(20e-6)
        assert child["created_at"] <= child["started_at"] <= child["finished_at"] < child["deadline_at"]
        (kept,) = service.sql("select body from config_snapshots where hash = ?", child["config_hash"])
        assert json.loads(kept["body"])["config"]["agents"]["Scout"]["description"] == "scouts"
        assert "look there" not in kept["body"]
    changed = settings_of(tmp_path, config.replace("scouts", "scouts otherwise"))
    assert changed.hash != child["config_hash"]


@requirement("S2-DB-9")
async def test_a_row_tells_how_it_was_cut_short_by_which_actor_and_its_partial_output(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {sub_agents: [Brief, Endless]}
      Brief: {description: must conclude, max_iterations: 1}
      Endless: {description: never ends}
    """
    ended = anyio.Event()
    scripts = {
        "Lead": [dispatch("Brief") + dispatch("Endless"), gate(ended, crash(RuntimeError("a bug")))],
        "Brief": [call("nothing"), say("half of it")],
        "Endless": [say("so far so good") + call("nothing") + call("nothing"), hang()],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Brief", 2)
            await service.model.started("Endless", 2)
            while service.statuses()["Brief"] != ["completed"]:
                await anyio.lowlevel.checkpoint()
            ended.set()
            await service.dispatcher.wait(started.id)

        rows = {row["agent"]: row for row in service.sql("select * from executions")}
        brief, endless, lead = rows["Brief"], rows["Endless"], rows["Lead"]
        assert (brief["outcome"], brief["reason"], brief["turns"]) == ("partial", "max_iterations", 2)
        assert (endless["status"], endless["outcome"], endless["tool_call_count"]) == ("cancelled", "partial", 0)
        assert (endless["cancelled_by"], endless["cancel_reason"]) == ("Lead", "its parent ended")
        assert json.loads(endless["result"])["output"] == "so far so good"
        assert (lead["status"], lead["error_type"]) == ("failed", "internal")
        assert lead["error"] == "internal error: RuntimeError"
        assert "half of it" in json.loads(lead["result"])["output"]


@requirement("S2-DB-15")
async def test_the_questions_of_the_readme_are_answered(tmp_path: Path) -> None:
    from db.query.query import query

    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    questions = [line.split('"')[1] for line in readme.splitlines() if 'outrider sql "' in line]
    config = "agents: {Lead: {sub_agents: [Scout]}, Scout: {description: scouts}}"
    scripts = {"Lead": [dispatch("Scout"), say("waiting"), say("done")], "Scout": [say("seen")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")
    assert len(questions) >= 4
    for question in questions:
        assert query(service.database, question).columns
    costs = query(service.database, "select agent, tokens from agent_costs order by agent").rows
    assert costs == [("Lead", 45), ("Scout", 15)]


@requirement("S2-GR-9")
async def test_an_agent_may_dispatch_itself_only_with_the_cycle_check_off(tmp_path: Path) -> None:
    config = """
    agents:
      Twin: {description: divides, sub_agents: [Twin], limits: {cycle_check: false, max_depth: 1}}
      Lead: {sub_agents: [Back]}
      Back: {description: goes back, sub_agents: [Lead2]}
      Lead2: {description: leads again, sub_agents: [Back]}
    """
    twin = [dispatch("Twin", "half"), say("waiting"), say("whole")]
    scripts = {
        "Twin": lambda request: (
            say("half done") if request.messages[0].text == "half" else twin[len(request.messages) // 2]
        ),
        "Lead": [dispatch("Back"), say("waiting"), say("done")],
        "Back": [dispatch("Lead2"), say("waiting"), say("done")],
        "Lead2": [dispatch("Back"), say("refused, then")],
    }
    async with bench(tmp_path, config, scripts) as service:
        assert (await service.run("Twin")).status == "completed"
        assert service.statuses()["Twin"] == ["completed", "completed"]
        await service.run("Lead")
        (refused,) = results(service.model.of("Lead2")[-1])
        assert refused["is_error"]
        assert "Lead → Back → Lead2 → Back" in text_of(refused)


@requirement("S2-CH-6", "S2-CF-6")
async def test_a_stage_may_name_the_agent_that_merges_its_results(tmp_path: Path) -> None:
    config = """
    models: {m: {provider: anthropic, model: claude-x}}
    agents:
      A: {description: a}
      B: {description: b}
      Merger: {iteration_strategy: synthesis}
    agent_chains: {both: {stages: [{name: look, agents: [A, B], synthesis: Merger}]}}
    """
    async with bench(tmp_path, config, {"A": [say("a")], "B": [say("b")], "Merger": [say("ab")]}) as service:
        ended = await service.run("both")
        assert ended.result is not None
        assert ended.result.text == "ab"
        (merger,) = service.sql("select role, strategy, model from executions where agent = 'Merger'")
        assert merger == {"role": "synthesis", "strategy": "synthesis", "model": "claude-x"}
        assert service.model.of("Merger")[0].tools == ()
