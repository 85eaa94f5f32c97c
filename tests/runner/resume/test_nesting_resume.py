"""Five levels that are cut off go on as one: they come to the same end, and nothing is asked that was answered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from runner.llm.protocol import Request
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.faults.crash.scene import rows_of
from tests.runner.resume.cutting import broken_promises, cut_off
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.iterate.iterated import first
from tests.runner.strategies.nested import ANSWER, LEVELS, config, everybody, scripts
from tests.support.models import ScriptedModel, hang, say
from tests.support.service import OneModel, bench, settings_of
from tests.support.write_ahead_log import Recording, unfolded

CUTS = int(os.environ.get("OUTRIDER_CUTS", "6"))
"""After so many of the recorded commits, of which there are some ninety."""

TREE = "select step_id, role, status, outcome, reason, path, depth, task from executions order by path, step_id, task"
DECIDED = "select type, payload from events where type in ('route.decided', 'iterate.decided') order by seq"
REPLIES = "select execution_id from messages where kind = 'reply'"


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[tuple[Dispatcher, ScriptedModel]]:
    """A service that keeps every commit."""
    model = ScriptedModel(scripts())
    blueprint = Blueprint(settings_of(folder, config()), folder / "outrider.db", models=OneModel(model))
    async with open_service(blueprint) as dispatcher:
        with unfolded(blueprint.database):
            yield dispatcher, model


def turns(request: Request) -> int:
    """How often whoever is asked has spoken before."""
    return sum(message.role == "assistant" for message in request.messages)


async def test_five_levels_cut_off_after_any_commit_come_to_the_same_end(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    with anyio.fail_after(30):
        async with service(tmp_path) as (dispatcher, _):
            started = await dispatcher.start(Order("Front", "survey the coast"))
            ended = await dispatcher.wait(started.id)
            recording = await Recording.of(tmp_path / "outrider.db", tmp_path / "copy")
    assert ended.result is not None
    assert (ended.result.text, ended.result.outcome) == (ANSWER, "completed")
    database = tmp_path / "outrider.db"
    tree, decided = rows_of(database, TREE), rows_of(database, DECIDED)
    for cut, where in cut_off(recording, tmp_path, CUTS):
        replies = Counter(row["execution_id"] for row in rows_of(cut, REPLIES))
        with anyio.fail_after(30):
            async with service(cut.parent) as (dispatcher, model):
                await dispatcher.adopt()
                again = await dispatcher.wait(started.id)
        assert again.result is not None, where
        assert (again.result.text, again.result.outcome) == (ANSWER, "completed"), where
        assert rows_of(cut, TREE) == tree, where
        assert rows_of(cut, DECIDED) == decided, where
        twice = [request.agent for request in model.requests if turns(request) < replies[request.execution_id]]
        assert twice == [], where
        assert broken_promises(cut) == {}, where


async def test_five_levels_that_were_stopped_go_on_where_each_was(tmp_path: Path) -> None:
    stuck = scripts(Scout=lambda request: say("east is clear") if first(request) == "east" else hang())
    async with bench(tmp_path, config(), stuck) as before:
        started = await before.dispatcher.start(Order("Front", "survey the coast"))
        with anyio.fail_after(10):
            await before.model.started("Scout", 3)
    async with after_a_stop(tmp_path, scripts(), config=config()) as after:
        ended = await after.ended(started.id)
        assert ended.result is not None
        assert (ended.result.text, ended.result.outcome) == (ANSWER, "completed")
        asked = Counter(request.agent for request in after.model.requests)
        assert asked.pop("Lead") in (2, 3, 4)  # who was about to say that it waits says so again
        assert asked == {"Scout": 2, "TaskPlanner": 1, "Completer": 1, "Composer": 1}
        attempts = {row["agent"]: row["attempt"] for row in everybody(after) if row["agent"] in LEVELS}
        assert attempts == dict.fromkeys(LEVELS, 2)
