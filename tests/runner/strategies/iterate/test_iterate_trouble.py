"""Iterations in trouble: stopped in part, out of money, flooded, going round in circles, continued after nonsense."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from runner.llm.protocol import Request
from runner.service.order import Order
from tests.properties.verdicts import violations
from tests.runner.strategies import nested
from tests.runner.strategies.iterate.iterated import config, done, finished, first, seats, task, tasks
from tests.runner.strategies.loop.spenders import MODELS, cost
from tests.runner.strategies.plan.planned import plan, step
from tests.support.models import Script, Turn, call, gate, hang, say, shared
from tests.support.reading import answer, shown
from tests.support.service import bench
from tests.support.spending import used


async def test_a_worker_that_is_cancelled_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {
        "TaskPlanner": shared(tasks("a", "b", parallel=True), finished()),
        "TaskWorker": lambda request: hang() if "<task>\na\n" in first(request) else done("beta"),
        "Completer": [say("only b")],
    }
    async with bench(tmp_path, config(), scripts) as service:
        started = await service.dispatcher.start(Order("Reporter", "do both"))
        with anyio.fail_after(10):
            await service.model.started("TaskWorker", 2)
        [row] = service.sql("select id from executions where step_id = 'task.1'")
        await service.dispatcher.cancel(row["id"], "Ada", "not that one")
        end = await service.ended(started.id)
        assert end.result is not None
        assert (end.status, end.result.text) == ("completed", "only b")
        told = first(service.model.of("TaskPlanner")[1])
        assert all(part in told for part in ("message: it was cancelled", "result: beta"))
        assert violations(service) == []


async def test_asked_to_conclude_during_parallel_tasks_those_at_work_answer_and_no_other_begins(tmp_path: Path) -> None:
    opened = anyio.Event()

    def working(request: Request) -> Turn:
        return gate(opened, call("nothing")) if request.tools else done("as far as I came")

    scripts: dict[str, Script] = {
        "TaskPlanner": [tasks("a", "b", "c", "d", parallel=True)],
        "TaskWorker": working,
        "Completer": [say("so far")],
    }
    async with bench(tmp_path, config(agent="max_concurrent_agents: 2,"), scripts) as service:
        started = await service.dispatcher.start(Order("Reporter", "do all"))
        with anyio.fail_after(10):
            await service.model.started("TaskWorker", 2)
            await service.dispatcher.ask_to_wrap_up(started.id)
            await service.until(lambda: ("task.4", "cancelled") in seats(service))
        opened.set()
        end = await service.ended(started.id)
        assert end.result is not None
        assert (end.status, end.result.outcome, end.result.reason) == ("completed", "partial", "asked")
        assert end.result.text == "so far"
        assert [status for _, status in seats(service)] == ["completed"] * 3 + ["cancelled"] * 2 + ["completed"]
        assert "as far as I came" in first(service.model.of("Completer")[0])


@pytest.mark.parametrize("budget", [0.03, 0.09, 0.12])
async def test_out_of_money_in_the_middle_what_was_brought_is_the_answer(tmp_path: Path, budget: float) -> None:
    def paid(request: Request) -> Turn:
        said = {"TaskPlanner": tasks(*"abcde", parallel=True), "TaskWorker": done("found"), "Completer": say("so far")}
        return said[request.agent].using(used(request, 1900 if request.agent == "TaskWorker" else 50))

    limit = f"limits: {{max_cost_usd: {budget}}},"
    async with bench(tmp_path, MODELS + config(agent=limit), {"*": paid}) as service:
        end = await service.run("Reporter", "do all")
        assert end.result is not None
        assert (end.status, end.result.outcome, end.result.reason) == ("completed", "partial", "cost_budget")
        assert end.result.text == "so far"
        assert cost(service) <= budget
        assert seats(service)[-1] == ("completer", "completed")
        unpaid = service.sql("select reason from executions where status = 'skipped'")
        assert {row["reason"] for row in unpaid} == {"cost_budget"}


async def test_one_whose_own_planner_talked_nonsense_is_continued_by_asking_it_anew(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {
        "Guide": shared(task("a"), say("hmm"), task("b"), finished()),
        "TaskWorker": shared(done("alpha"), done("beta")),
        "Completer": shared(say("half"), say("whole")),
    }
    async with bench(tmp_path, config("planner: Guide", more="  Guide: {description: guides}\n"), scripts) as service:
        half = await service.run("Reporter", "do it")
        assert half.result is not None
        assert (half.result.outcome, half.result.reason) == ("partial", "validation")
        whole = await service.ended((await service.dispatcher.resume(half.id)).id)
        assert whole.result is not None
        assert (whole.result.text, whole.result.outcome) == ("whole", "completed")
        assert all(word in first(service.model.of("Completer")[1]) for word in ("alpha", "beta"))


async def test_an_iteration_whose_worker_is_above_it_is_refused_as_any_cycle(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"TaskPlanner": shared(task("go on"), finished()), "Completer": [say("nobody could")]}
    more = "  Other: {strategy: iterate, description: o, iterate: {worker: Reporter}}\n"
    async with bench(tmp_path, config("worker: Other", more=more), scripts) as service:
        end = await service.run("Reporter", "do it")
        assert end.result is not None
        assert end.result.text == "nobody could"
        assert "`Reporter` is already at work above you: Reporter → Other → Reporter" in first(
            service.model.of("TaskPlanner")[1]
        )
        assert len(service.sql("select id from executions")) == 5


async def test_how_often_a_step_may_be_tried_is_no_input_of_an_iteration(tmp_path: Path) -> None:
    text = """
agents:
  Assistant: {strategy: plan, sub_agents: [It], plan: {compose: never}}
  It:
    strategy: iterate
    description: iterates
    input_schema: {type: object, properties: {depth: {type: integer, default: 3}}, additionalProperties: false}
"""
    scripts: dict[str, Script] = {
        "Planner": [plan(step("step_1", "It", "look", maxRetries=1))],
        "TaskPlanner": lambda _: finished(),
        "Completer": [say("nothing there")],
    }
    async with bench(tmp_path, text, scripts) as service:
        end = await service.run("Assistant", "look")
        assert end.result is not None
        assert "nothing there" in end.result.text
        assert '"depth": 3' in first(service.model.of("TaskPlanner")[0])


async def test_a_truncated_result_of_an_earlier_step_can_be_read_by_the_planner_of_a_later_one(tmp_path: Path) -> None:
    long = "the harbour lies in the east. " + "it is deep. " * 60_000 + "beware of the rock"

    def reading(request: Request) -> Turn:
        if len(request.messages) > 1:
            return finished(reasoning=answer(request)["text"][-18:])
        assert "read_result(execution_id='step_1'" in first(request)
        return call("read_result", execution_id="step_1", offset=len(long) - 1000)

    more: dict[str, Script] = {"Notes": [say(long)], "TaskPlanner": reading}
    more |= dict.fromkeys(("Completer", "Composer"), lambda _: say("done"))
    async with bench(tmp_path, nested.config(), nested.scripts(**more)) as service:
        await service.run("Front", "survey the coast")
        [told] = service.sql("select payload from events where type = 'iterate.decided'")
        assert "beware of the rock" in told["payload"]


async def test_a_message_reaches_children_spawned_later_and_no_child_is_asked_twice_for_it(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts: dict[str, Script] = {
        "TaskPlanner": shared(task("a"), task("b"), finished()),
        "TaskWorker": shared(gate(opened, done("alpha")), done("alpha, briefly"), done("beta")),
        "Completer": [say("briefly")],
    }
    async with bench(tmp_path, config(), scripts) as service:
        started = await service.dispatcher.start(Order("Reporter", "do it"))
        with anyio.fail_after(10):
            await service.model.started("TaskWorker")
            await service.dispatcher.send_message(started.id, "be brief", "Ada")
        opened.set()
        assert (await service.ended(started.id)).status == "completed"
        heard = [(request.agent, "be brief" in shown(request)) for request in service.model.requests]
        assert heard[:3] == [("TaskPlanner", False), ("TaskWorker", False), ("TaskWorker", True)]
        assert heard[3:] == [(name, True) for name in ("TaskPlanner", "TaskWorker", "TaskPlanner", "Completer")]
        assert violations(service) == []
