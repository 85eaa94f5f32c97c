"""Orchestrators as AIGNE writes them, at work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.registry import orchestrators
from tests.registry.orchestrators import orchestrator
from tests.runner.strategies.iterate.iterated import done, finished, first, task
from tests.support.face import face
from tests.support.models import say, shared
from tests.support.requirement import requirement
from tests.support.service import bench


@requirement("S3-CF-1", "S3-CF-2")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (orchestrators.BASIC, "works towards its objective, task by task"),
        (orchestrators.DOCUMENTATION, "Explore the codebase and generate comprehensive documentation including:"),
        (f"{orchestrators.TYPE}description: reports\nobjective: Report.", "reports"),
    ],
)
async def test_it_can_be_dispatched_over_mcp_as_it_is_written_there(tmp_path: Path, text: str, said: str) -> None:
    orchestrator(tmp_path, text)
    scripts = {"TaskPlanner": [finished()], "Completer": [say("it is small")]}
    async with face(tmp_path, orchestrators.ROOT, scripts) as opened, opened.client() as client:
        listed = (await client.call("list_agents"))["agents"]
        assert {each["name"]: each["description"] for each in listed}["orchestrator"] == said

        started = await client.call("dispatch_agent", name="orchestrator", task="Be brief.")
        ended = await client.call("get_result", execution_id=started["execution_id"], wait_seconds=10)
        assert (ended["status"], ended["result"]["output"]) == ("completed", "it is small")
        [objective] = [first(request).partition("</objective>")[0] for request in opened.model.of("TaskPlanner")]
        assert objective.endswith("Be brief.\n")


@requirement("S3-CF-1", "S3-OP-8", "S3-IN-1")
async def test_a_file_as_it_is_written_there_runs(tmp_path: Path) -> None:
    components = "planner: {type: ai, model: anthropic/claude-x}\nworker: {type: ai, model: google/gemini-2.0-flash}\n"
    orchestrator(tmp_path, orchestrators.BASIC + orchestrators.COMPLETER + components)
    report = {"summary": "small", "recommendations": ["grow"]}
    scripts = {
        "TaskPlanner": shared(task("read it"), finished()),
        "TaskWorker": [done("it is small")],
        "Completer": [say(json.dumps(report))],
    }
    async with bench(tmp_path, orchestrators.ROOT, scripts) as service:
        end = await service.run("orchestrator", "", input={"message": "be brief", "secret": "BURIED"})

        assert end.result is not None
        assert (end.status, end.result.output) == ("completed", report)
        assert "## Wishes\nbe brief" in first(service.model.of("TaskWorker")[0])
        assert "BURIED" not in "".join(map(first, service.model.requests))
        asked = service.sql("select distinct role, model from executions where parent_execution_id is not null")
        assert {row["role"]: row["model"] for row in asked} == {
            "planner": "claude-x",
            "worker": "google/gemini-2.0-flash",
            "completer": "google/gemini-2.5-pro",
        }
