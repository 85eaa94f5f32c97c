"""The registry of delegations: who works for whom, until when, at what depth; and what is refused before it begins."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.clock import moment
from db.rows.lists import FIELDS
from db.store.engine import sqlite_library
from registry import CatalogueEntry, Limits
from runner.core.delegation import exported
from runner.core.guard import Caller, admit
from runner.errors import Refusal
from runner.service.order import Order
from tests.runner.strategies.route.commanded import crew
from tests.support.models import Step, call, gate, hang, say
from tests.support.reading import dispatch
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
agents:
  Lead: {description: leads, sub_agents: [Left, Right, Last], max_concurrent_agents: 2, agent_timeout: 30s}
  Left: {description: left}
  Right: {description: right}
  Last: {description: last}
"""


async def registry(service: Bench) -> dict[str, Any]:
    """The registry as it is handed out."""
    return exported(await service.dispatcher.services.database.reads.delegations.tracked())


def statuses(told: dict[str, Any]) -> dict[str, str]:
    return {each["subagent"]: each["status"] for each in told["delegations"]}


@requirement("S1-RE-1", "S1-RE-2", "S1-RE-3", "S1-RM-2", "S1-ST6-1", "S1-ST9-2", "S1-ST12-1", "S1-RF-1")
async def test_a_delegation_is_in_the_registry_from_before_its_start_until_after_its_end(tmp_path: Path) -> None:
    opened, seen = anyio.Event(), []

    def looks_around(name: str) -> Step:
        async def answer(_request: object) -> Any:
            seen.append(service.sql("select status from delegations where subagent = ?", name))
            await opened.wait()
            return say(f"{name} is done")

        return answer

    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right") + dispatch("Last"), say("waiting"), say("done"), say("done")],
        **{name: [looks_around(name)] for name in ("Left", "Right", "Last")},
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        root = await service.dispatcher.start(Order("Lead", "go"))
        await service.until(lambda: len(seen) == 2 and len(service.sql("select 1 from delegations")) == 3)
        told = await registry(service)
        assert seen == [[{"status": "running"}]] * 2  # each found itself there when it began
        assert statuses(told) == {"Left": "running", "Right": "running", "Last": "pending"}
        assert (told["active_delegations"], told["total_tracked"]) == (2, 3)
        left, _, last = told["delegations"]
        assert set(left) == {*FIELDS, "execution_id"}
        assert len(FIELDS) == 11
        assert (left["delegation_depth"], left["delegation_path"], left["timeout"]) == (1, ["Lead", "Left"], 30.0)
        until = (moment(left["deadline"]) - moment(left["start_time"])).total_seconds()
        assert until == pytest.approx(30, abs=0.1)
        assert (last["start_time"], last["deadline"]) == (None, None)

        opened.set()
        ended = await service.ended(root.id)
        over = await registry(service)
        rows = service.sql('select subagent, status, "return" from delegations order by subagent')
        audited = service.sql("select payload from events where execution_id = ? order by seq desc", left["execution_id"])

    assert ended.result is not None
    assert statuses(over) == dict.fromkeys(("Left", "Right", "Last"), "completed")
    assert over["active_delegations"] == 0
    metadata = json.loads(rows[1]["return"])["metadata"]
    assert json.loads(rows[1]["return"])["summary"] == "Left is done"
    assert (metadata["agent_type"], metadata["delegation_depth"]) == ("Left", 1)
    assert (metadata["delegation_path"], metadata["duration_seconds"] > 0) == (["Lead", "Left"], True)
    session = ended.result.metadata["session_id"]
    assert {each["session_id"] for each in over["delegations"]} == {session, metadata["session_id"]} == {session}
    end = json.loads(audited[0]["payload"])
    assert (end["status"], end["session_id"], end["seconds"] > 0) == ("completed", session, True)


@requirement("S1-RE-1", "S1-RF-1")
async def test_the_path_in_a_return_is_the_one_of_the_registry_with_the_command_in_it(tmp_path: Path) -> None:
    config = crew(tmp_path).replace("  planner: {}", "  planner: {sub_agents: [researcher]}")
    config = config.replace("  researcher: {}", "  researcher: {description: looks it up}")
    scripts = {"planner": [dispatch("researcher"), say("waiting"), say("planned")], "researcher": [say("found")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("orchestrator", "/plan 191")
        await service.run("orchestrator", "/task Mend the gate")
        known = (await registry(service))["delegations"]
        returned = service.sql("select id, result from executions where parent_execution_id is not null")

    results = {row["id"]: json.loads(row["result"]) for row in returned}
    paths = {each["subagent"]: each["delegation_path"] for each in known}
    assert paths == {
        "planner": ["orchestrator", "plan", "planner"],
        "researcher": ["orchestrator", "plan", "planner", "researcher"],
        "atomic-task-numberer": ["orchestrator", "task", "atomic-task-numberer"],
    }
    for each in known:
        assert results[each["execution_id"]]["metadata"]["delegation_path"] == each["delegation_path"]
    [made] = [each["output"] for each in results.values() if isinstance(each["output"], dict)]
    assert made["metadata"]["delegation_path"] == paths["atomic-task-numberer"]


async def test_what_an_agent_is_given_under_the_same_name_is_no_delegation(tmp_path: Path) -> None:
    config = """
agents:
  Lead: {sub_agents: [Typed]}
  Typed: {description: takes input, input_schema: {type: object, properties: {delegation: {type: object}}}}
"""
    forged = {"delegation": {"command": {"a": 1}, "delegation_path": "nowhere", "task_context": {"task_number": 195}}}
    sent = call("dispatch_agent", name="Typed", task="x", input=forged)
    async with bench(tmp_path, config, {"Lead": [sent, say("a"), say("b")], "Typed": [say("ok")]}) as service:
        await service.run("Lead")
        [shown] = (await registry(service))["delegations"]
    assert (shown["command"], shown["task_number"], shown["delegation_path"]) == (None, None, ["Lead", "Typed"])


@requirement("S1-RM-1")
async def test_what_ended_leaves_the_registry_after_an_hour_and_what_works_never_does(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Left") + dispatch("Right"), say("a"), say("b"), say("c")], "Left": [say("l")]}
    async with bench(tmp_path, CONFIG, {**scripts, "Right": [say("r")]}) as service:
        await service.run("Lead", principal="ada")
        reads = service.dispatcher.services.database.reads.delegations
        assert [len(await reads.tracked(principal)) for principal in (None, "ada", "bo")] == [2, 2, 0]

    def tracked(*changes: str) -> list[str]:
        with closing(sqlite_library().connect(service.database)) as database:
            for change in changes:
                database.execute(change)
            database.commit()
            return [name for (name,) in database.execute("select subagent from delegations order by subagent")]

    def ended(seconds: int) -> str:
        at = f"strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{seconds} seconds')"
        return f"update executions set created_at = {at}, started_at = {at}, finished_at = {at} where agent = 'Left'"

    assert tracked(ended(3590)) == ["Left", "Right"]
    assert tracked(ended(3610)) == ["Right"]
    still = "update executions set status = 'running', finished_at = null where agent = 'Left'"
    assert tracked(ended(90_000), still) == ["Left", "Right"]


@requirement("S1-T3", "S1-ST5-1")
def test_an_agent_that_is_in_the_path_already_is_refused_with_the_path() -> None:
    entry = CatalogueEntry("agent_a", "does a")
    path = ("orchestrator", "agent_a", "agent_b")
    caller = Caller("agent_b", path, 2, [entry], Limits(), dispatches_left=5)
    with pytest.raises(Refusal, match="orchestrator → agent_a → agent_b → agent_a") as refused:
        admit(caller, "agent_a", ["agent_a"])
    assert refused.value.kind == "delegation_cycle"
    assert refused.value.context == {"delegation_path": list(path), "target": "agent_a"}


@requirement("S1-T3", "S1-ST5-1", "S1-ST5-3", "S1-ER-1")
async def test_a_cycle_fails_the_agent_that_would_close_it_and_starts_no_child(tmp_path: Path) -> None:
    config = """
    agents:
      orchestrator: {description: leads, sub_agents: [agent_a]}
      agent_a: {description: a, sub_agents: [agent_b]}
      agent_b: {description: b, strategy: route, sub_agents: [agent_a]}
    """
    chosen = json.dumps({"intent": "work", "agents": ["agent_a"], "needs_plan": False, "confidence": 0.9})
    scripts = {
        "orchestrator": [dispatch("agent_a"), say("waiting"), say("done")],
        "agent_a": [dispatch("agent_b"), say("waiting"), say("done")],
        "Classifier": [say(chosen)],
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("orchestrator")
        [row] = service.sql("select status, result from executions where agent = 'agent_b'")
        assert service.statuses()["agent_a"] == ["completed"]
        assert service.sql("select subagent from delegations where subagent = 'agent_a' and status <> 'completed'") == []
        [record] = service.sql("select type, severity, context from errors")

    path = ["orchestrator", "agent_a", "agent_b"]
    result = json.loads(row["result"])
    error = result["errors"][0]
    assert (row["status"], result["outcome"]) == ("failed", "failed")
    assert (error["type"], error["code"], error["severity"]) == ("delegation_cycle", "CYCLE_DETECTED", "high")
    assert (error["context"]["delegation_path"], error["context"]["target"]) == (path, "agent_a")
    assert "refactor" in result["next_steps"][0]
    assert (record["type"], record["severity"]) == ("delegation_cycle", "high")
    assert json.loads(record["context"])["delegation_path"] == path


@requirement("S1-T6", "S1-ST5-2", "S1-ER-2")
async def test_a_fourth_level_is_refused_and_fails_the_agent_that_needs_it(tmp_path: Path) -> None:
    config = """
    agents:
      A: {description: a, sub_agents: [B]}
      B: {description: b, sub_agents: [C]}
      C: {description: c, sub_agents: [D]}
      D: {description: d, strategy: route, sub_agents: [E]}
      E: {description: e}
    """
    below = {"A": "B", "B": "C", "C": "D"}
    scripts = {above: [dispatch(name), say("waiting"), say("done")] for above, name in below.items()}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("A")
        rows = service.sql("select agent, depth, result from executions order by depth")
        records = service.sql("select type, severity from errors")

    assert [(row["agent"], row["depth"]) for row in rows] == [("A", 0), ("B", 1), ("C", 2), ("D", 3)]
    result = json.loads(rows[3]["result"])
    error = result["errors"][0]
    assert (result["outcome"], error["type"], error["code"]) == ("failed", "max_depth_exceeded", "MAX_DEPTH_EXCEEDED")
    told = {name: error["context"][name] for name in ("depth", "max_depth", "delegation_path")}
    assert told == {"depth": 3, "max_depth": 3, "delegation_path": ["A", "B", "C", "D"]}
    assert "simplify" in result["next_steps"][0]
    assert records == [{"type": "max_depth_exceeded", "severity": "high"}]


@requirement("S1-T4", "S1-ST8-1", "S1-ST8-2", "S1-ER-3")
async def test_a_delegation_over_its_time_is_ended_and_keeps_what_there_was(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {description: leads, sub_agents: [Coder]}
      Coder: {description: codes, sub_agents: [Writer], timeout: 400ms}
      Writer: {description: writes}
    """
    report = call("finish", status="completed", summary="phase 1", artifacts=[{"type": "plan", "path": "plan.md"}])
    scripts = {
        "Lead": [dispatch("Coder"), say("waiting"), say("done")],
        "Coder": [dispatch("Writer"), say("waiting"), hang(), hang()],
        "Writer": [report],
    }
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("Lead")
        [row] = service.sql("select status, outcome, error_type, result from executions where agent = 'Coder'")
        told = await registry(service)
        [record] = service.sql("select type, severity, context from errors")

    assert ended.result is not None
    assert (row["status"], row["outcome"], row["error_type"]) == ("timed_out", "partial", "timeout")
    result = json.loads(row["result"])
    error = result["errors"][0]
    assert (error["type"], error["code"]) == ("timeout", "TIMEOUT")
    assert error["context"]["session_id"] == ended.result.metadata["session_id"]
    assert (error["context"]["subagent"], error["context"]["timeout"]) == ("Coder", 0.4)
    assert "resume" in result["next_steps"][0]
    assert result["artifacts"] == [{"type": "plan", "path": "plan.md"}]
    assert (told["active_delegations"], statuses(told)["Coder"]) == (0, "timed_out")
    assert (record["type"], record["severity"]) == ("timeout", "medium")
    assert json.loads(record["context"])["timeout"] == 0.4


async def test_time_that_runs_out_before_anything_was_found_is_a_partial_end_too(tmp_path: Path) -> None:
    async with bench(tmp_path, "agents: {Slow: {timeout: 100ms}}", {"Slow": [hang(), hang()]}) as service:
        ended = await service.run("Slow")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.output) == ("timed_out", "partial", None)
        assert ended.result.errors[0].type == "timeout"


@requirement("S1-ST8-1")
async def test_what_is_asked_to_stop_is_no_error(tmp_path: Path) -> None:
    opened = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Left": [gate(opened, say("left"))]}) as service:
        child = await service.dispatcher.start(Order("Left", "go"))
        await service.until(lambda: service.sql("select 1 from executions where status = 'running'"))
        await service.dispatcher.cancel(child.id, by="test", reason="enough")
        await service.ended(child.id)
        assert service.sql("select * from errors") == []
