"""A plan as people and programs see it: `show --plan`, its JSON, the MCP resource; before, while and after it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp.types as t

from runner.strategies.plan.export import plan_of
from tests.runner.strategies.iterate import iterated
from tests.runner.strategies.plan.planned import A, B, C, config, plan
from tests.support.face import face
from tests.support.models import fail, say, shared
from tests.support.requirement import requirement
from tests.support.service import bench
from tests.support.shell import make_shell

TRIES = (fail("overloaded"), say('{"items": [1, 2]}'))
SCRIPTS = {"Planner": [plan(A, B, C)], "B": [fail("invalid", "no", recoverable=False)], "Composer": [say("sorry")]}


@requirement("S0-PM-1", "S0-PM-2", "S0-PM-5", "S4-EX-3")
async def test_a_plan_is_shown_with_every_step_and_what_became_of_it(tmp_path: Path) -> None:
    tries = list(TRIES)
    async with bench(tmp_path, config("max_replans: 0"), {**SCRIPTS, "A": lambda _: tries.pop(0)}) as service:
        ended = await service.run("Assistant", "do it all")
    folder = tmp_path / "shell"
    folder.mkdir()
    shell = make_shell(folder)
    told: dict[str, Any] = shell.json("show", ended.id, "--plan", "--db", str(tmp_path / "outrider.db"))

    assert (told["status"], told["version"], told["user_request"]) == ("failed", 1, "do it all")
    first, second, third = told["steps"]
    assert (first["status"], first["success"], first["retry_count"], first["max_retries"]) == ("completed", True, 1, 2)
    assert first["result"]["output"] == '{"items": [1, 2]}'
    assert first["result"]["token_usage"] == {"input": 10, "output": 5}
    assert (second["success"], second["response"]) == (False, None)
    assert "no" in second["error"]
    assert second["started_at"] is not None
    assert (third["status"], third["duration_ms"], third["started_at"]) == ("skipped", 0, None)
    assert list(told["context"]["step_results"]) == ["step_1", "step_2", "step_3"]
    assert told["context"]["errors"][0]["step_id"] == "step_2"
    words = shell.type("show", ended.id, "--plan", "--db", str(tmp_path / "outrider.db")).stdout
    assert "● step_1 A (completed, 1 more attempts): do it" in words
    refused = shell.type("show", first["execution_id"], "--plan", "--db", str(tmp_path / "outrider.db"))
    assert (refused.returncode, "has no plan" in refused.stderr) == (4, True)


@requirement("S3-ES-1", "S3-TR-1")
async def test_an_iteration_is_shown_with_its_tasks_also_when_it_has_none(tmp_path: Path) -> None:
    scripts = {
        "TaskPlanner": shared(iterated.finished(), iterated.task("look\nat it"), iterated.finished()),
        "TaskWorker": [iterated.undone("it is gone", [1])],
        "Completer": [say("done")],
    }
    async with bench(tmp_path, iterated.config(), scripts) as service:
        ended = [await service.run("Reporter"), await service.run("Reporter")]
    folder = tmp_path / "shell"
    folder.mkdir()
    shell = make_shell(folder)
    none, one = (shell.json("show", each.id, "--plan", "--db", str(tmp_path / "outrider.db")) for each in ended)

    assert none == {"execution_id": ended[0].id, "tasks": []}
    [record] = one["tasks"]
    assert {key: record[key] for key in ("task", "status", "result", "error")} == {
        "task": "look\nat it", "status": "failed", "result": [1], "error": {"message": "it is gone"},
    }  # fmt: skip
    assert record["createdAt"] <= record["completedAt"]
    words = shell.type("show", ended[1].id, "--plan", "--db", str(tmp_path / "outrider.db")).stdout
    assert words == "1 task, 0 completed\n✕ 1 TaskWorker (failed): look at it\n    it is gone\n"


@requirement("S0-OQ-4")
async def test_a_plan_is_a_resource(tmp_path: Path) -> None:
    scripts = {"Planner": [plan(A)], "A": [say("alpha")], "Composer": [say("done")]}
    async with face(tmp_path, config(), scripts) as opened, opened.client("auto") as caller:
        identifier = (await caller.call("run_agent", name="Assistant", task="go", wait_seconds=20))["execution_id"]
        [contents] = (await caller.client.read_resource(f"execution://{identifier}/plan")).contents
    assert isinstance(contents, t.TextResourceContents)
    assert [step["status"] for step in json.loads(contents.text)["steps"]] == ["completed"]


async def test_the_plan_of_a_message_is_shown_by_the_execution_that_answered_it(tmp_path: Path) -> None:
    decision = say('{"involvedAgents": ["A", "B"], "requiresPlan": true}')
    scripts = {
        "Classifier": [decision],
        "Planner": [plan(A, B)],
        "A": [say("a")],
        "B": [say("b")],
        "Composer": [say("both")],
    }
    async with bench(
        tmp_path, config().replace("strategy: plan", "strategy: route").replace(", plan: {}", ""), scripts
    ) as service:
        ended = await service.run("Assistant", "do both")
        told = await plan_of(service.dispatcher.services.database.reads, ended.id)
    assert told is not None
    assert [step["status"] for step in told["steps"]] == ["completed", "completed"]
    assert told["execution_id"] != ended.id
