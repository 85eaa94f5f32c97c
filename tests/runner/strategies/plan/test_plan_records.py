"""What is written about a plan: every change as line, event and row with the same ids, and the plan as one can read it."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from db.ids import new_execution_id
from db.status import TRANSITIONS, ExecutionStatus
from registry import AgentSpec, load
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.strategies.plan.export import plan_of
from server.app import Blueprint, open_service
from tests.runner.strategies.plan.planned import plan, step
from tests.support.models import Script, ScriptedModel, call, fail, say, shared
from tests.support.requirement import requirement
from tests.support.service import OneModel, bench

OUTPUTS: Mapping[str, Any] = {
    "Dict": {"items": [1, 2.5, None, True], "nested": {"a": "ä </step>"}},
    "List": ["a", {"b": []}, -1],
    "Text": 'plain text, "quoted", {not: json}',
}
"""What functions return."""
CONFIG = (
    "agents: {Assistant: {strategy: plan, sub_agents: [Dict, List, Text, Broken, Worker]}, Worker: {description: works}}"
)


@asynccontextmanager
async def service(folder: Path, model: ScriptedModel) -> AsyncIterator[Dispatcher]:
    """A service with agents that are functions."""

    def returning(name: str) -> Any:
        async def work(_task: str, _input: Any) -> Any:
            return OUTPUTS[name]  # what is broken has none

        return work

    file = folder / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    names = (*OUTPUTS, "Broken")
    registered = [AgentSpec(name=name, description=name, strategy="function") for name in names]
    functions = {name: returning(name) for name in names}
    blueprint = Blueprint(load(file, {}, registered), folder / "outrider.db", models=OneModel(model), functions=functions)
    async with open_service(blueprint) as dispatcher:
        yield dispatcher


@requirement("S0-PM-1", "S0-PM-2", "S0-PM-3", "S0-PM-5")
async def test_a_plan_reads_back_with_every_step_its_result_unchanged_and_what_it_used(tmp_path: Path) -> None:
    first = [step(name.lower(), name, f"make {name}") for name in OUTPUTS]
    work, broken = step("work", "Worker", "look twice"), step("broken", "Broken", "fail", maxRetries=1)
    again = step("later", "Worker", "and once more")
    planner = shared(plan(*first, work, broken, again, analysis="as wanted", responseHint="briefly"), plan())
    scripts: dict[str, Script] = {
        "Planner": planner,
        "Worker": [call("read_result", execution_id="dict"), say("seen")],
        "Composer": [say("all done")],
    }
    async with service(tmp_path, ScriptedModel(scripts)) as dispatcher:
        started = await dispatcher.start(Order("Assistant", "make all of it"))
        await dispatcher.wait(started.id)
        read = await plan_of(dispatcher.services.database.reads, started.id)

    assert read is not None
    assert (read["execution_id"], read["user_request"], read["version"]) == (started.id, "make all of it", 2)
    assert (read["status"], read["response_hint"]) == ("failed", "briefly"), "nothing took the place of what failed"
    assert read["updated_at"] > read["created_at"]
    by_id = {each["id"]: each for each in read["steps"]}
    for name, output in OUTPUTS.items():
        assert by_id[name.lower()]["result"]["output"] == output
    worked = by_id["work"]
    fields = ("id", "agent", "task", "status", "success", "retry_count", "max_retries", "error", "requires_confirmation")
    assert [worked[each] for each in fields] == ["work", "Worker", "look twice", "completed", True, 0, 2, None, False]
    tokens = {"input": 20, "output": 10}
    assert worked["result"] == {"success": True, "output": "seen", "error": None, "token_usage": tokens}, "two calls"
    failed = by_id["broken"]
    assert (failed["status"], failed["retry_count"], failed["max_retries"]) == ("failed", 1, 1)
    assert failed["result"]["success"] is False
    assert by_id["later"]["status"] == "skipped"
    assert read["context"]["step_results"].keys() == by_id.keys()
    assert read["context"]["errors"][0] == {"step_id": "broken", "error": failed["error"]}
    assert read["triggers"][0]["type"] == "step_failed"


@requirement("S0-NFR-2", "S0-NFR-3", "S0-PM-6", "S0-EX-2")
async def test_every_change_of_a_plan_and_its_steps_is_one_line_of_json_with_the_ids_of_its_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "outrider.events")
    config = "agents: {Assistant: {strategy: plan, sub_agents: [A, B]}, A: {description: a}, B: {description: b}}"
    scripts = {
        "Planner": shared(plan(step("step_1", "A"), step("step_2", "B"), step("step_3", "A", "more")), plan()),
        "A": [say("alpha")],
        "B": lambda _: fail("overloaded"),
        "Composer": [say("all done")],
    }
    async with bench(tmp_path, config, scripts) as opened:
        await opened.run("Assistant")
        events = [{**row, "payload": json.loads(row["payload"])} for row in opened.sql("select * from events order by seq")]
        rows = opened.sql("select id, step_id, agent, status, parent_execution_id from executions where role = 'step'")
        plans = {row["id"] for row in opened.sql("select id from plans")}
    lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "outrider.events"]
    assert [line["seq"] for line in lines] == [event["seq"] for event in events]

    plan_lines = [line for line in lines if line["type"].startswith("plan.")]
    assert [line["type"] for line in plan_lines] == [
        f"plan.{each}" for each in ("planning", "executing", "replanning", "executing", "failed")
    ]
    assert {line["payload"]["plan_id"] for line in plan_lines} == plans
    assert all(line["payload"]["status"] == line["type"].removeprefix("plan.") and line["at"] for line in plan_lines)
    for row in rows:
        told = [line for line in lines if line["execution_id"] == row["id"] and line["type"] == "execution.status"]
        for line in told:
            assert (line["payload"]["step_id"], line["payload"]["agent"]) == (row["step_id"], row["agent"])
            assert line["parent_execution_id"] == row["parent_execution_id"]
            assert line["at"]
        statuses = [ExecutionStatus(line["payload"]["status"]) for line in told]
        assert statuses[-1] == row["status"]
        assert all(after in TRANSITIONS[before] for before, after in itertools.pairwise(statuses))
    failed = next(row["id"] for row in rows if row["step_id"] == "step_2")
    story = [line["type"] for line in lines if line["execution_id"] == failed or line in plan_lines]
    attempts = [each for each in story if each in ("execution.retrying", "plan.replanning")]
    assert attempts == ["execution.retrying", "execution.retrying", "plan.replanning"], "attempts, then another plan"
    assert [row["status"] for row in rows] == ["completed", "failed", "skipped"]


@requirement("S0-NFR-3")
def test_ids_do_not_repeat() -> None:
    assert len({new_execution_id() for _ in range(10_000)}) == 10_000
