"""A plan that is cut off goes on: wherever that was, it comes to the same end, and nothing is asked that was answered."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from runner.approvals.approvals import ApprovalAnswer
from runner.errors import Refusal
from runner.llm.protocol import Request
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.strategies.plan.export import plan_of
from server.app import Blueprint, open_service
from tests.faults.crash.scene import rows_of
from tests.runner.resume.cutting import broken_promises, cut_off
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.plan.planned import A, B, C, config, plan, roles, step, steps
from tests.support.models import Script, ScriptedModel, Turn, fail, hang, say, shared
from tests.support.service import OneModel, bench, settings_of
from tests.support.write_ahead_log import Recording, unfolded

CUTS = int(os.environ.get("OUTRIDER_CUTS", "7"))
"""After so many of the recorded commits, of which there are some eighty."""

CONFIG = """
users: {alex: {name: Alex}}
chat: {agent: Front}
agents:
  Front: {strategy: route, sub_agents: [A, B, Sub]}
  Coordinator: {plan: {compose: always, on_step_failure: replan}}
  Sub: {strategy: plan, description: plans a part, sub_agents: [C]}
  A: {description: does a}
  B: {description: does b}
  C: {description: does c}
"""
TREE = "select step_id, role, status, outcome, reason, path from executions order by path, step_id"
MADE = "select type, execution_id from events where type like 'plan.%' order by seq"


def first(request: Request) -> str:
    return request.messages[0].text


def planner(request: Request) -> Turn:
    """A plan, its revision, or the part of it that `Sub` plans."""
    if 'name="C"' in request.system:
        return plan(C)
    if "has to be revised" in first(request):
        return plan(A, step("step_2", "Sub", "differently", requiresConfirmation=True))
    return plan(A, step("step_2", "B", maxRetries=1), step("step_3", "B", "and more"))


SCRIPTS = {
    "Classifier": lambda _: say('{"primaryIntent": "A", "involvedAgents": ["A", "B", "Sub"], "requiresPlan": true}'),
    "Planner": planner,
    "A": lambda request: say("alpha") if "earlier attempt" in first(request) else fail("overloaded"),
    "B": lambda _: fail("overloaded"),
    "C": lambda _: say("gamma"),
    "Composer": lambda _: say("all done"),
}
"""Everybody answers by what they are asked alone: who is asked after a restart must not be told less."""


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[tuple[Dispatcher, ScriptedModel]]:
    """A service in which somebody allows everything, and every commit is kept."""
    model = ScriptedModel(SCRIPTS)
    blueprint = Blueprint(settings_of(folder, CONFIG), folder / "outrider.db", models=OneModel(model))
    async with open_service(blueprint) as dispatcher, anyio.create_task_group() as group:

        async def allow() -> None:
            approvals = dispatcher.approvals
            while True:
                news = approvals.news
                for question in await approvals.open():
                    await approvals.decide(question, ApprovalAnswer(approved=True, by="Ada"))
                await news.wait()

        group.start_soon(allow, name="allow everything")
        with unfolded(blueprint.database):
            yield dispatcher, model
        group.cancel_scope.cancel()


async def test_a_message_whose_plan_is_cut_off_after_any_commit_is_answered_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with anyio.fail_after(30):
        async with service(tmp_path) as (dispatcher, model):
            started, _ = await dispatcher.chat_queue.accept(Order("", "do it", user="alex"))
            ended = await dispatcher.wait(started.id)
            recording = await Recording.of(tmp_path / "outrider.db", tmp_path / "copy")
    assert ended.result is not None
    assert (ended.result.text, ended.result.outcome) == ("all done", "completed")
    database = tmp_path / "outrider.db"
    tree, made = rows_of(database, TREE), rows_of(database, MADE)
    assert {row["step_id"] for row in tree if row["role"] == "step"} == {"step_1", "step_2", "step_3", "step_2_v2"}
    assert [row["type"] for row in made].count("plan.executing") == 3, "a plan, its revision, and a plan in it"
    asked = {(request.agent, request.system, first(request)) for request in model.requests}

    for cut, where in cut_off(recording, tmp_path, CUTS):
        with anyio.fail_after(30):
            async with service(cut.parent) as (dispatcher, model):
                await dispatcher.adopt()
                again = await dispatcher.wait(started.id)
        assert again.result is not None, where
        assert (again.result.text, again.result.outcome) == ("all done", "completed"), where
        assert rows_of(cut, TREE) == tree, where
        assert [row["type"] for row in rows_of(cut, MADE)] == [row["type"] for row in made], where
        assert {(request.agent, request.system, first(request)) for request in model.requests} <= asked, where
        assert [row["content"] for row in rows_of(cut, "select content from chat_messages")] == ["do it", "all done"], where
        assert broken_promises(cut) == {}, where


async def test_a_plan_killed_in_the_middle_goes_on_with_its_next_step(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Planner": [plan(A, B, C)], "A": [say("alpha")], "B": lambda _: hang()}
    async with bench(tmp_path, config(), scripts) as before:
        started = await before.dispatcher.start(Order("Assistant", "do a, b and c"))
        with anyio.fail_after(10):
            await before.model.started("B")
        assert steps(before) == {"step_1": "completed", "step_2": "running", "step_3": "pending"}

    scripts = {"B": [say("beta")], "C": [say("gamma")], "Composer": [say("all done")]}
    async with after_a_stop(tmp_path, scripts, config=config()) as after:
        ended = await after.ended(started.id)

        assert ended.result is not None
        assert ended.result.text == "all done"
        assert [request.agent for request in after.model.requests] == ["B", "C", "Composer"]
        assert all(word in first(after.model.of("C")[0]) for word in ("alpha", "beta"))
        assert roles(after) == ["root", "planner", "step", "step", "step", "composer"]
        assert [row["attempt"] for row in after.sql("select attempt from executions order by id")] == [2, 1, 1, 2, 2, 1]


async def test_a_plan_that_ended_with_less_than_all_can_be_continued_and_is_worded_anew(tmp_path: Path) -> None:
    scripts = {
        "Planner": shared(plan(A, B, C)),
        "A": shared(say("alpha")),
        "B": shared(fail("invalid", "no", recoverable=False), say("beta at last")),
        "C": shared(say("gamma")),
        "Composer": shared(say("half of it"), say("all of it")),
    }
    async with bench(tmp_path, config("max_replans: 0"), scripts) as service:
        half = await service.run("Assistant", "do a, b and c")
        assert half.result is not None
        assert (half.result.text, half.result.outcome) == ("half of it", "partial")
        second = await service.ended((await service.dispatcher.resume(half.id)).id)

        assert second.result is not None
        assert (second.result.text, second.result.outcome) == ("all of it", "completed")
        wording = first(service.model.of("Composer")[1])
        assert all(word in wording for word in ("do a, b and c", "alpha", "beta at last", "gamma"))
        read = await plan_of(service.dispatcher.services.database.reads, second.id)
        assert read is not None
        assert (read["status"], [each["status"] for each in read["steps"]]) == ("completed", ["completed"] * 3)
        with pytest.raises(Refusal, match="has completed its task"):
            await service.dispatcher.resume(second.id, "and once more")
