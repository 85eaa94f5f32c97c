"""Anything nests in anything: a route that plans, whose step iterates, whose worker dispatches, is one tree. It has one
deadline and one budget, is cancelled as one, steered from above and held up from below.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import anyio
import pytest

from db.clock import moment
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.properties.verdicts import violations
from tests.runner.strategies.iterate.iterated import done, finished, first, task, tasks, undone
from tests.runner.strategies.loop.spenders import MODELS, cost
from tests.runner.strategies.nested import ANSWER, LEVELS, config, everybody, lead, planner, scripts, tree
from tests.support.gated import DELETE, asked, decide, deleting
from tests.support.models import Script, Turn, gate, hang, say
from tests.support.reading import delivered, dispatch, dispatched, results, shown, text_of
from tests.support.requirement import requirement
from tests.support.service import bench
from tests.support.shell import make_shell
from tests.support.spending import used

STAFF = ("Classifier", "Planner", "Composer", "TaskPlanner", "Completer")


async def test_five_levels_are_one_tree(tmp_path: Path) -> None:
    async with bench(tmp_path, config(), scripts()) as service:
        end = await service.run("Front", "survey the coast")
        assert end.result is not None
        assert (end.status, end.result.outcome, end.result.text) == ("completed", "completed", ANSWER)
        assert "the harbour lies in the east" in first(service.model.of("TaskPlanner")[0])
        assert violations(service) == []
        rows = {row["id"]: row for row in tree(service)}
        told = [(row["depth"], row["agent"], row["subtree_executions"]) for row in rows.values() if row["agent"] in LEVELS]
        assert told == [
            *((0, "Front", 17), (1, "Coordinator", 15), (2, "Survey", 11)),
            *[(3, "Lead", 2)] * 3,
            *[(4, "Scout", 1)] * 3,
        ]
        assert {row["root_execution_id"] for row in rows.values()} == {end.id}
        assert {row["path"] for row in rows.values() if row["depth"] == 4} == {"/".join(LEVELS)}
        for identifier, row in rows.items():
            below = [each for each in rows.values() if each["parent_execution_id"] == identifier]
            assert all(each["depth"] == row["depth"] + 1 and each["path"].startswith(row["path"]) for each in below)
            assert row["subtree_tokens"] == row["own_tokens"] + sum(each["subtree_tokens"] for each in below)
        assert rows[end.id]["subtree_tokens"] == 15 * len(service.model.requests)
        stored = [row["depth"] for row in everybody(service, *LEVELS)]
        assert sorted(stored) == [0, 1, 2, 3, 3, 3, 4, 4, 4]
    folder = tmp_path / "shell"
    folder.mkdir()
    drawn = make_shell(folder).type("show", end.id, "--tree", "--db", str(tmp_path / "outrider.db")).stdout
    lines = [line for line in drawn.splitlines() if any(name in line for name in (*LEVELS, *STAFF, "Notes"))]
    assert len(lines) == 17
    columns = [next(line.index(f"● {name} ") for line in lines if f"● {name} " in line) for name in LEVELS]
    assert columns == sorted(set(columns))


@requirement("S1-T6")
async def test_with_the_default_depth_the_last_dispatch_is_refused_and_there_is_an_answer(tmp_path: Path) -> None:
    def alone(request: Request) -> Turn:
        return dispatch("Scout", "east") if len(request.messages) == 1 else undone(text_of(results(request)[0]))

    def once(request: Request) -> Turn:
        return finished() if "status: failed" in first(request) else task("the east")

    more: dict[str, Script] = {"Lead": alone, "TaskPlanner": once}
    more |= dict.fromkeys(("Completer", "Composer"), lambda _: say("nobody could be sent"))
    async with bench(tmp_path, config(""), scripts(**more)) as service:
        end = await service.run("Front", "survey the coast")
        assert end.result is not None
        assert (end.status, end.result.text) == ("completed", "nobody could be sent")
        assert "agents are nested 3 deep at most, and you are at depth 3" in first(service.model.of("TaskPlanner")[1])
        assert everybody(service, "Scout") == []
        [error] = service.sql("select * from error_records")
        assert error["type"] == "max_depth_exceeded"
        assert violations(service) == []


async def test_five_levels_have_one_deadline_and_answer_when_it_comes(tmp_path: Path) -> None:
    more: dict[str, Script] = {
        "TaskPlanner": lambda request: hang() if "status: failed" in first(request) else planner(request),
        "Scout": lambda request: say("east is clear") if first(request) == "east" else hang(),
    }
    async with bench(tmp_path, config("max_depth: 4, timeout: 2500ms, agent_timeout: 10s"), scripts(**more)) as service:
        end = await service.run("Front", "survey the coast")
        assert end.result is not None
        assert (end.status, end.result.outcome, end.result.reason) == ("completed", "partial", "time_budget")
        assert end.result.text == "the coast is clear: east"
        rows = everybody(service)
        by_id = {row["id"]: row for row in rows}
        for row in rows[1:]:
            above = by_id[row["parent_execution_id"]]
            assert row["deadline_at"] < above["deadline_at"]
            assert row["finished_at"] <= row["deadline_at"] or row["status"] == "timed_out"
        assert moment(rows[0]["finished_at"]) < moment(rows[0]["deadline_at"])
        assert [row["status"] for row in rows if row["agent"] == "Scout"] == ["completed", "timed_out", "timed_out"]
        assert [row["reason"] for row in rows if row["agent"] == "Lead"] == [None, "time_budget", "time_budget"]
        assert violations(service) == []


async def test_five_levels_have_one_budget_and_who_cannot_be_paid_is_told(tmp_path: Path) -> None:
    def paid(script: Script) -> Script:
        assert callable(script)

        def answer(request: Request) -> Turn:
            turn = script(request)
            assert isinstance(turn, Turn)
            return turn.using(used(request, 1500 if request.agent == "Scout" else 50))

        return answer

    def endless(request: Request) -> Turn:
        return task(f"the {first(request).count('- task:')}th mile") if request.tools else finished()

    def sending(request: Request) -> Turn:
        ends = delivered(request)
        if len(request.messages) == 1:
            return dispatch("Scout", "east")
        return done("east is clear") if ends or not request.tools else say("I wait")

    more = {"TaskPlanner": endless, "Lead": sending, "Scout": lambda _: say("east is clear")}
    said = {name: paid(script) for name, script in scripts(**more).items()}
    budget = 0.5
    async with bench(tmp_path, MODELS + config(front=f"limits: {{max_cost_usd: {budget}}}"), said) as service:
        end = await service.run("Front", "survey the coast")
        assert end.result is not None
        assert (end.status, end.result.outcome, end.result.reason) == ("completed", "partial", "cost_budget")
        assert end.result.text == "the coast is clear: east"
        assert 0.5 * budget < cost(service) <= budget
        assert sum(row["cost_usd"] for row in everybody(service)) == pytest.approx(cost(service))
        assert {row["budget_reserved_usd"] for row in everybody(service)} == {0.0}
        told = [
            *(row["reason"] for row in everybody(service) if row["reason"] == "cost_budget" and row["agent"] != "Front"),
            *(row["error_type"] for row in service.sql("select error_type from tool_calls where is_error")),
        ]
        assert told
        assert violations(service) == []


async def test_five_levels_are_cancelled_as_one(tmp_path: Path) -> None:
    more: dict[str, Script] = {"TaskPlanner": [tasks("the west", "the north", parallel=True)], "Scout": lambda _: hang()}
    async with bench(tmp_path, config(), scripts(**more)) as service:
        started = await service.dispatcher.start(Order("Front", "survey the coast"))
        with anyio.fail_after(10):
            await service.model.started("Scout", 2)
        began = time.monotonic()
        await service.dispatcher.cancel(started.id, "somebody", "enough")
        end = await service.ended(started.id)
        assert time.monotonic() - began < 1.0
        assert end.status == "cancelled"
        assert (service.model.running, len(service.model.cancelled)) == (0, 2)
        stopped = [row for row in everybody(service) if row["agent"] in LEVELS]
        assert {(row["status"], row["cancel_reason"]) for row in stopped} == {("cancelled", "enough")}
        assert [row["agent"] for row in stopped] == [*LEVELS[:4], "Lead", "Scout", "Scout"]
        assert list(service.dispatcher.tree) == []
        assert violations(service) == []


async def test_a_message_to_the_root_reaches_its_descendants(tmp_path: Path) -> None:
    opened = anyio.Event()

    def listening(request: Request) -> Turn:
        """Sends a second scout when told to, with the words it was told."""
        if "look twice" in shown(request) and len(dispatched(request)) == 1:
            return dispatch("Scout", "twice")
        return lead(request) if len(delivered(request)) == len(dispatched(request)) else say("I wait")

    def planning(request: Request) -> Turn:
        return finished() if "status: completed" in first(request) else task("the east")

    more: dict[str, Script] = {
        "TaskPlanner": planning,
        "Lead": listening,
        "Scout": lambda request: gate(opened, say(f"{first(request)} is clear")),
    }
    async with bench(tmp_path, config(), scripts(**more)) as service:
        started = await service.dispatcher.start(Order("Front", "survey the coast"))
        with anyio.fail_after(10):
            await service.model.started("Scout")
            await service.dispatcher.send_message(started.id, "look twice", "Ada")
            scout = await service.model.started("Scout", 2)
            opened.set()
        assert first(scout) == "twice"
        end = await service.ended(started.id)
        assert end.status == "completed"
        heard = {request.agent for request in service.model.requests if "look twice" in shown(request)}
        assert heard >= {"Lead", "TaskPlanner", "Completer", "Composer"}
        told = service.sql("select execution_id from deliveries where kind = 'message'")
        assert len({row["execution_id"] for row in told}) == len(told)
        assert violations(service) == []


async def test_a_question_at_the_bottom_stops_all_clocks_above(tmp_path: Path) -> None:
    """The tree has a second; a person takes longer."""
    tools = deleting()
    more: dict[str, Script] = {
        "TaskPlanner": lambda request: finished() if "status: completed" in first(request) else task("the east"),
        "Scout": lambda request: DELETE if len(request.messages) == 1 else say("east is clear"),
    }
    config_ = config("max_depth: 4, timeout: 1s, agent_timeout: 1s")
    async with bench(tmp_path, config_, scripts(**more), tools.for_agents("Scout")) as service:
        started = await service.dispatcher.start(Order("Front", "survey the coast"))
        [question] = await asked(service)
        alive = {each.name: each.allowance for each in service.dispatcher.tree}
        assert set(alive) == set(LEVELS)
        assert all(each.stands and each.deadline == math.inf for each in alive.values())
        left = {name: each.seconds_left for name, each in alive.items()}
        with anyio.move_on_after(1.1):
            await anyio.sleep_forever()
        assert {name: each.seconds_left for name, each in alive.items()} == left
        assert await decide(service, question)
        end = await service.ended(started.id)
        assert end.result is not None
        assert (end.status, end.result.text) == ("completed", "the coast is clear: east")
        assert len(tools.calls) == 1
        assert violations(service) == []
