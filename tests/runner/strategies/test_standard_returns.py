"""`returns: standard`: a model or a function answers in the standard form, or is asked once more, or has failed."""

import json
from pathlib import Path
from typing import Any

from registry import AgentSpec, load
from runner.llm.protocol import Request
from runner.service.order import Order
from runner.strategies.route.commands.report import processed
from server.app import Blueprint, open_service
from tests.support.models import Turn, call, say
from tests.support.requirement import requirement
from tests.support.service import bench

CONFIG = """
agents:
  Researcher: {description: looks, returns: standard}
"""


def returned(session: str, **changes: Any) -> dict[str, Any]:
    whole = {"status": "completed", "summary": "found it", "artifacts": [], "metadata": {"session_id": session}}
    return {name: value for name, value in (whole | changes).items() if value is not None}


def session_in(request: Request) -> str:
    """What the model was told of its session."""
    return request.system.split("`session_id`, which is `")[1].split("`")[0]


@requirement("S1-ST10-6", "S1-ER-4", "S1-RF-6")
async def test_a_model_is_asked_once_more_for_a_return_that_is_right(tmp_path: Path) -> None:
    def answers(**changes: Any) -> Any:
        return lambda request: say(json.dumps(returned(session_in(request), **changes)))

    def reports(request: Request) -> Turn:
        return call("finish", status="completed", summary="in short", output=returned(session_in(request)))

    async with bench(tmp_path, CONFIG, {}) as service:
        for said in (answers(task_number=196), reports):
            service.model.scripts["Researcher"] = [say("no JSON at all"), said]
            ended = await service.run("Researcher")
            assert ended.result is not None
            assert (ended.status, ended.result.summary) == ("completed", "found it")
        again = service.model.of("Researcher")[1].messages[-1]
        assert (again.kind, "it is not JSON" in again.text) == ("correction", True)
        first = service.sql("select result from executions order by id")[0]
        assert json.loads(first["result"])["output"]["task_number"] == 196

        broken = {"type": "build", "message": "it does not build", "code": "LEAN_7", "recoverable": False}
        service.model.scripts["Researcher"] = [answers(status="failed", errors=[broken])]
        ended = await service.run("Researcher")
        assert ended.result is not None
        assert (ended.status, ended.error, ended.result.errors[0].code) == ("failed", "it does not build", "LEAN_7")
        assert "manual" in processed(ended.result)["recovery"][0].lower()

        service.model.scripts["Researcher"] = [answers(summary=None), answers(metadata={"session_id": "sess_1_aaaaaa"})]
        ended = await service.run("Researcher")

    records = service.sql("select type, severity, context from errors where type = 'validation_failed'")
    assert ended.result is not None
    error = ended.result.errors[0]
    assert (ended.status, error.type, error.code, error.severity) == (
        *("failed", "validation_failed", "VALIDATION_FAILED", "high"),
    )
    assert error.context["validation_error"].startswith("Session ID mismatch: expected ")
    assert json.loads(error.context["original"])["metadata"] == {"session_id": "sess_1_aaaaaa"}
    assert (error.context["subagent"], error.context["session_id"]) == ("Researcher", ended.result.metadata["session_id"])
    assert "fix the sub-agent" in (error.recommendation or "")
    assert "report this" in ended.result.next_steps[0]
    assert [record["severity"] for record in records] == ["high"]
    assert json.loads(records[0]["context"])["validation_error"] == error.context["validation_error"]


@requirement("S1-RF-5")
async def test_artifacts_of_an_agent_with_workspaces_have_to_be_there(tmp_path: Path) -> None:
    config = """
    workspaces: {docs: {path: docs}}
    agents: {Writer: {description: writes, returns: standard, workspaces: [docs]}}
    """

    def names(path: str) -> Any:
        artifacts = [{"type": "research", "path": path}]
        return lambda request: say(json.dumps(returned(session_in(request), artifacts=artifacts)))

    write = call("write_file", workspace="docs", path="report.md", content="found")
    async with bench(tmp_path, config, {"Writer": [write, names("docs/other.md"), names("docs/report.md")]}) as service:
        ended = await service.run("Writer")
        again = service.model.of("Writer")[-1].messages[-1]

    assert "Artifact not found: docs/other.md" in again.text
    assert ended.result is not None
    assert ended.result.artifacts == ({"type": "research", "path": "docs/report.md"},)


@requirement("S1-T5", "S1-ST10-6", "S1-RF-6")
async def test_a_function_that_returns_something_else_has_failed_with_what_it_returned(tmp_path: Path) -> None:
    async def number(task: str, session: Any) -> Any:
        return {"status": "completed"} if task == "wrong" else returned(session, task_number=7)

    file = tmp_path / "config.yaml"
    file.write_text("agents: {Helper: {description: helps}}", encoding="utf-8")
    registered = [AgentSpec(name="Numberer", description="counts", strategy="function", returns="standard")]
    blueprint = Blueprint(load(file, {}, registered), tmp_path / "outrider.db", functions={"Numberer": number})
    async with open_service(blueprint) as service:
        right, wrong = [
            await service.wait((await service.start(Order("Numberer", task, "monday", session="monday"))).id)
            for task in ("count", "wrong")
        ]

    assert right.result is not None
    assert (right.status, right.result.summary, processed(right.result)["task_number"]) == ("completed", "found it", 7)
    assert wrong.result is not None
    error = wrong.result.errors[0]
    assert (wrong.status, error.message) == ("failed", "Return validation failed: Missing required field: summary")
    assert error.context["original"] == {"status": "completed"}
