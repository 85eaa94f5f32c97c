"""An iteration that is cut off goes on: it comes to the same end, and nothing is asked that was answered."""

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
from runner.strategies.iterate.export import tasks_of
from server.app import Blueprint, open_service
from tests.faults.crash.scene import rows_of
from tests.runner.resume.cutting import broken_promises, cut_off
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.iterate.iterated import config, done, finished, first, seats, task, tasks, undone
from tests.support.models import Script, ScriptedModel, Turn, fail, hang, say, shared
from tests.support.requirement import requirement
from tests.support.service import OneModel, bench, settings_of
from tests.support.write_ahead_log import Recording, unfolded

CUTS = int(os.environ.get("OUTRIDER_CUTS", "5"))
"""After so many of the recorded commits."""

TREE = "select step_id, role, status, outcome, reason, path from executions order by path, step_id"
DECIDED = "select payload from events where type = 'iterate.decided' order by seq"


def planner(request: Request) -> Turn:
    """One task, then two together of which one fails, then one more; by what is recorded alone."""
    told = first(request)
    if "result: omega" in told:
        return finished()
    if "message: not there" in told:
        return task("look again")
    return tasks("b", "c", parallel=True) if "result: alpha" in told else task("a", reasoning="it is first")


def worker(request: Request) -> Turn:
    told = first(request)
    if "<task>\na\n" in told:
        return done("alpha")
    if "<task>\nlook again\n" in told:
        return done("omega")
    return undone("not there") if "<task>\nb\n" in told else done("gamma")


SCRIPTS = {"TaskPlanner": planner, "TaskWorker": worker, "Completer": lambda _: say("from alpha to omega")}


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[tuple[Dispatcher, ScriptedModel]]:
    """A service that keeps every commit."""
    model = ScriptedModel(SCRIPTS)
    blueprint = Blueprint(settings_of(folder, config()), folder / "outrider.db", models=OneModel(model))
    async with open_service(blueprint) as dispatcher:
        with unfolded(blueprint.database):
            yield dispatcher, model


async def test_an_iteration_that_is_cut_off_after_any_commit_comes_to_the_same_end(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with anyio.fail_after(30):
        async with service(tmp_path) as (dispatcher, model):
            started = await dispatcher.start(Order("Reporter", "reach it"))
            ended = await dispatcher.wait(started.id)
            recording = await Recording.of(tmp_path / "outrider.db", tmp_path / "copy")
    assert ended.result is not None
    assert (ended.result.text, ended.result.outcome) == ("from alpha to omega", "completed")
    database = tmp_path / "outrider.db"
    tree, decided = rows_of(database, TREE), rows_of(database, DECIDED)
    assert [row["step_id"] for row in tree if row["role"] == "worker"] == ["task.1", "task.2", "task.3", "task.4"]
    assert len(decided) == 4
    whole = len(model.requests)
    for cut, where in cut_off(recording, tmp_path, CUTS):
        with anyio.fail_after(30):
            async with service(cut.parent) as (dispatcher, model):
                asked = len(rows_of(cut, "select id from model_calls"))
                await dispatcher.adopt()
                again = await dispatcher.wait(started.id)
        assert asked + len(model.requests) <= whole + 2, "only what was cut is asked once more"
        assert again.result is not None, where
        assert (again.result.text, again.result.outcome) == ("from alpha to omega", "completed"), where
        assert rows_of(cut, TREE) == tree, where
        assert rows_of(cut, DECIDED) == decided, where
        assert broken_promises(cut) == {}, where


async def test_an_iteration_that_was_stopped_goes_on_at_its_next_task(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"TaskPlanner": shared(tasks("a", "b")), "TaskWorker": shared(done("alpha"), hang())}
    async with bench(tmp_path, config(), scripts) as before:
        started = await before.dispatcher.start(Order("Reporter", "do both"))
        with anyio.fail_after(10):
            await before.model.started("TaskWorker", 2)
    scripts = {"TaskPlanner": [finished()], "TaskWorker": [done("beta")], "Completer": [say("both")]}
    async with after_a_stop(tmp_path, scripts, config=config()) as after:
        ended = await after.ended(started.id)
        assert ended.result is not None
        assert ended.result.text == "both"
        assert [request.agent for request in after.model.requests] == ["TaskWorker", "TaskPlanner", "Completer"]
        assert all(word in first(after.model.of("Completer")[0]) for word in ("alpha", "beta"))
        assert [seat for seat, _ in seats(after)] == ["plan.1", "task.1", "task.2", "plan.2", "completer"]


@requirement("S3-TR-1", "S3-ES-1")
async def test_one_that_reached_its_limit_can_be_continued_with_as_many_turns_again(tmp_path: Path) -> None:
    scripts = {
        "TaskPlanner": shared(task("a"), task("b"), task("c"), finished()),
        "TaskWorker": shared(done("alpha"), fail("invalid", "no", recoverable=False), done("beta at last"), done("gamma")),
        "Completer": shared(say("half"), say("all of it")),
    }
    async with bench(tmp_path, config("state: {max_iterations: 2}"), scripts) as service:
        half = await service.run("Reporter", "do it")
        assert half.result is not None
        assert (half.result.text, half.result.outcome) == ("half", "partial")
        whole = await service.ended((await service.dispatcher.resume(half.id)).id)
        assert whole.result is not None
        assert (whole.result.text, whole.result.outcome) == ("all of it", "completed")
        state = await tasks_of(service.dispatcher.services.database.reads, whole.id)
        assert state is not None
        assert [(each["task"], each["status"]) for each in state["tasks"]] == [
            ("a", "completed"),
            ("b", "completed"),
            ("c", "completed"),
        ]
        assert all(each["createdAt"] <= each["completedAt"] for each in state["tasks"])
        with pytest.raises(Refusal, match="has completed its task"):
            await service.dispatcher.resume(whole.id)
