"""Commands that are cut off, or called once more: nobody is asked twice, and what is done stays done."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from runner.errors import Refusal
from runner.llm.protocol import Request
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.faults.crash.scene import rows_of
from tests.runner.resume.cutting import broken_promises, cut_off
from tests.runner.strategies.plan.planned import plan, step
from tests.runner.strategies.route.commanded import crew, item, workers
from tests.support.models import ScriptedModel, Turn, call, fail, say, shared
from tests.support.requirement import requirement
from tests.support.service import OneModel, bench, settings_of
from tests.support.write_ahead_log import Recording, unfolded

CUTS = int(os.environ.get("OUTRIDER_CUTS", "7"))
"""After so many of the recorded commits, of which there are some twenty."""

TREE = "select step_id, role, status, outcome, reason, path, input from executions order by path, step_id"
BOARD = "select number, status, plan, artifacts from work_items order by number"
CHANGES = "select payload from events where type = 'work_item.changed' order by seq"


def first(request: Request) -> str:
    return request.messages[0].text


def worker(request: Request) -> Turn:
    """Everybody answers by what they are asked alone."""
    if request.agent == "committer":
        return fail("invalid", "no repository", recoverable=False)
    made = [{"type": "file", "path": f"made/{request.agent}.md"}]
    if request.messages[-1].role == "user" and len(request.messages) == 1:
        return call("finish", status="completed", summary=f"done by {request.agent}", artifacts=made)
    return say("done")


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[tuple[Dispatcher, ScriptedModel]]:
    model = ScriptedModel({"*": worker})
    config = crew(folder).replace("          sets: completed\n", "          sets: completed\n          artifact: plan\n")
    settings = settings_of(folder, config)  # what is made changes who would work, if that were judged anew
    blueprint = Blueprint(settings, folder / "outrider.db", models=OneModel(model))
    async with open_service(blueprint) as dispatcher:
        with unfolded(blueprint.database):
            yield dispatcher, model


@requirement("S1-DG-2", "S1-ST13-3")
async def test_a_batch_that_is_cut_off_after_any_commit_comes_to_the_same_end(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with anyio.fail_after(30):
        async with service(tmp_path) as (dispatcher, model):
            started = await dispatcher.start(Order("orchestrator", "/implement 191,193", session="sess_1_abcdef"))
            ended = await dispatcher.wait(started.id)
            recording = await Recording.of(tmp_path / "outrider.db", tmp_path / "copy")
    assert ended.result is not None
    database = tmp_path / "outrider.db"
    tree, board, changes = (rows_of(database, query) for query in (TREE, BOARD, CHANGES))
    assert len(changes) == 2
    asked = {(request.agent, request.system, first(request)) for request in model.requests}
    assert [agent for agent, *_ in sorted(asked)] == ["committer", "implementer", "task-executor"]

    for cut, where in cut_off(recording, tmp_path, CUTS):
        with anyio.fail_after(30):
            async with service(cut.parent) as (dispatcher, model):
                await dispatcher.adopt()
                again = await dispatcher.wait(started.id)
        assert again.result is not None, where
        assert (again.result.text, again.result.outcome) == (ended.result.text, ended.result.outcome), where
        assert rows_of(cut, TREE) == tree, where
        assert rows_of(cut, BOARD) == board, where
        assert rows_of(cut, CHANGES) == changes, where
        assert {(request.agent, request.system, first(request)) for request in model.requests} <= asked, where
        assert broken_promises(cut) == {}, where


@requirement("S1-T7", "X-36")
async def test_the_same_command_again_does_only_what_is_left(tmp_path: Path) -> None:
    scripts = {
        "task-executor": shared(say("built")),
        "committer": shared(fail("invalid", "no repository", recoverable=False), say("committed")),
    }
    config = crew(tmp_path).replace("{agent: committer, critical: false}", "committer")
    async with bench(tmp_path, config, scripts) as service:
        half = await service.run("orchestrator", "/implement 191")
        assert half.result is not None
        assert half.result.outcome == "partial"
        assert "To resume: run /implement 191" in half.result.text
        assert item(service, 191)["status"] == "not_started"

        whole = await service.run("orchestrator", "/implement #191")
        assert whole.result is not None
        assert (whole.result.outcome, whole.result.summary) == ("completed", "committed")
        assert [request.agent for request in service.model.requests] == ["task-executor", "committer", "committer"]
        assert first(service.model.requests[-1]) == first(service.model.requests[1])  # with what was built before
        assert workers(service) == [("191/1", "task-executor"), ("191/2", "committer"), ("191/2", "committer")]
        rows = service.sql("select continues_execution_id from executions where parent_execution_id is null order by id")
        assert [row["continues_execution_id"] for row in rows] == [None, half.id]
        assert item(service, 191)["status"] == "completed"
        with pytest.raises(Refusal, match="has completed its task"):
            await service.dispatcher.resume(whole.id)

        service.model.scripts["task-executor"] = service.model.scripts["committer"] = lambda _: say("anew")
        anew = await service.run("orchestrator", "/implement 191")  # what was finished is done anew
        assert anew.result is not None
        assert anew.result.summary == "anew"
        assert [agent for _, agent in workers(service)][-2:] == ["task-executor", "committer"]


@requirement("S1-T7", "X-36")
async def test_of_a_plan_that_was_not_finished_only_the_open_phases_are_done(tmp_path: Path) -> None:
    config = crew(tmp_path).replace("  task-executor: {}", "  task-executor: {strategy: plan, sub_agents: [One, Two]}")
    config = config.replace("  planner: {}", "  plan-writer: {}\n  One: {description: one}\n  Two: {description: two}")
    config = config.replace("planner]", "plan-writer]").replace("agent: planner", "agent: plan-writer")
    config = config.replace(
        "{agents: [task-executor, {agent: committer, critical: false}], when", "{agent: task-executor, when"
    )
    scripts = {
        "Planner": shared(plan(step("a", "One", "first"), step("b", "Two", "second", dependsOn=["a"], maxRetries=0))),
        "One": shared(say("one is done")),
        "Two": shared(fail("invalid", "no", recoverable=False), say("two is done")),
        "Composer": shared(say("half"), say("all of it")),
    }
    config = config.replace("sub_agents: [One, Two]}", "sub_agents: [One, Two], plan: {max_replans: 0}}")
    async with bench(tmp_path, config, scripts) as service:
        half = await service.run("orchestrator", "/implement 191")
        assert half.result is not None
        assert half.result.outcome == "partial"
        whole = await service.run("orchestrator", "/implement 191")
        assert whole.result is not None
        assert (whole.result.outcome, whole.result.summary) == ("completed", "all of it")
        assert [request.agent for request in service.model.requests] == [
            *("Planner", "One", "Two", "Composer"),
            *("Two", "Composer"),
        ]


@requirement("S1-DG-2", "X-36")
async def test_one_item_of_a_batch_can_be_gone_on_with_alone(tmp_path: Path) -> None:
    scripts = {
        "implementer": lambda _: say("done"),
        "lean-implementation-agent": shared(fail("overloaded"), say("proved")),
    }
    async with bench(tmp_path, crew(tmp_path), scripts) as service:
        half = await service.run("orchestrator", "/implement 193,195,196")
        done = await service.run("orchestrator", "/implement 195")
        assert done.result is not None
        assert done.result.summary == "proved"
        rest = await service.run("orchestrator", "/implement 193")  # which was done in the batch: it is done anew
        assert rest.result is not None
        rows = service.sql("select continues_execution_id from executions where parent_execution_id is null order by id")
        assert [row["continues_execution_id"] for row in rows] == [None, half.id, None]
        assert [seat for seat, _ in workers(service)] == ["193/1", "195/1", "196/1", "195/1", "193/1"]
