"""An agent that cannot pay for one more call hands up what there is: its own words and what its agents reported."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from runner.llm.protocol import Request, Usage
from runner.service.order import Order
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.iterate import iterated
from tests.runner.strategies.loop.spenders import MODELS, cost
from tests.runner.strategies.plan import planned
from tests.support.models import Turn, call, hang, say
from tests.support.reading import dispatch
from tests.support.service import bench
from tests.support.spending import used

BUDGETS = [("max_cost_usd: 0.1", "cost_budget"), ("max_tokens: 30000", "token_budget")]
DEAR = Usage(input_tokens=24_000, cache_write_tokens=4_000, output_tokens=50)
"""More than anybody could have estimated of a short prompt."""

LEAD = """
agents:
  Lead: {{sub_agents: [Left, Right], limits: {{{limit}}}}}
  Left: {{description: looks left}}
  Right: {{description: looks right}}
"""


@pytest.mark.parametrize("said", ["", "I send two."])
@pytest.mark.parametrize(("limit", "reason"), [*BUDGETS, ("max_iterations: 2", "max_iterations")])
async def test_an_agent_that_gets_no_conclusion_hands_up_what_its_agents_reported(
    tmp_path: Path, limit: str, reason: str, said: str
) -> None:
    """Its money is gone, or the conclusion it is asked for says nothing."""

    def answer(request: Request) -> Turn:
        if request.agent == "Lead":
            words = say(said) if said and request.tools else Turn()
            sends = dispatch("Left") + dispatch("Right") if len(request.messages) == 1 else Turn()
            return (words + sends).using(used(request))
        return say(f"{request.agent}: " + "the disk is full. " * 500).using(DEAR)

    async with bench(tmp_path, MODELS + LEAD.format(limit=limit), {"*": answer}) as service:
        ended = await service.run("Lead", "look")

        assert all(request.tools for request in service.model.of("Lead")) == (reason != "max_iterations")
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", reason)
        assert ended.result.summary == (said or f"There was no conclusion ({reason}). Its agents reported:")
        for name in ("Left", "Right"):
            assert f"### {name} (completed)\n\n{name}: {'the disk is full. ' * 500}".strip() in ended.result.text
        [row] = service.sql("select status, outcome, reason, error from executions where agent = 'Lead'")
        assert row == {"status": "completed", "outcome": "partial", "reason": reason, "error": None}


def greedy(request: Request) -> Turn:
    """Whoever may call tools calls one as long as it is asked; what it brings is long."""
    turn = call("nothing") if request.tools else say(f"{request.agent} found " + "the disk is full. " * 150)
    return turn.using(used(request, 900))


PLAN = """
agents:
  Assistant: {{strategy: plan, sub_agents: [A, B, C], limits: {{max_cost_usd: {usd}}}, plan: {{max_replans: 0}}}}
  A: {{description: does a, max_iterations: 8}}
  B: {{description: does b, max_iterations: 8}}
  C: {{description: does c, max_iterations: 8}}
"""


@pytest.mark.parametrize("usd", [0.06, 0.1, 0.3])
async def test_a_plan_keeps_the_money_for_its_composer_whatever_its_steps_spend(tmp_path: Path, usd: float) -> None:
    def answer(request: Request) -> Turn:
        if request.agent == "Planner":
            return planned.plan(planned.A, planned.B, planned.C).using(used(request))
        return say("in short: all full").using(used(request)) if request.agent == "Composer" else greedy(request)

    async with bench(tmp_path, MODELS + PLAN.format(usd=usd), {"*": answer}) as service:
        ended = await service.run("Assistant", "look")

        assert ended.result is not None
        assert ended.result.text == "in short: all full"
        assert cost(service) <= usd
        assert "A found the disk is full." in service.model.of("Composer")[0].messages[0].text


ITERATE = "agents: {{Reporter: {{strategy: iterate, description: reports, limits: {{max_cost_usd: {usd}}}}}}}"


@pytest.mark.parametrize("usd", [0.08, 0.12, 0.3])
async def test_an_iteration_keeps_the_money_for_its_completer(tmp_path: Path, usd: float) -> None:
    def answer(request: Request) -> Turn:
        if request.agent == "TaskPlanner":
            return iterated.tasks("one", "two", "three").using(used(request))
        return say("in short: all full").using(used(request)) if request.agent == "Completer" else greedy(request)

    async with bench(tmp_path, MODELS + ITERATE.format(usd=usd), {"*": answer}) as service:
        ended = await service.run("Reporter", "look")

        assert ended.result is not None
        assert (ended.result.text, ended.result.outcome) == ("in short: all full", "partial")
        assert ended.result.reason == "cost_budget"
        assert cost(service) <= usd
        assert "TaskWorker found the disk is full." in service.model.of("Completer")[0].messages[0].text


async def test_an_iteration_whose_completer_cannot_be_paid_hands_up_what_its_tasks_brought(tmp_path: Path) -> None:
    def answer(request: Request) -> Turn:
        if request.agent == "TaskPlanner":
            return iterated.task("one").using(used(request))
        return iterated.done("the disk is full").using(Usage(input_tokens=90_000, output_tokens=50))

    config = ITERATE.format(usd=0.1).replace("description:", "output_schema: {type: object}, description:")
    async with bench(tmp_path, MODELS + config, {"*": answer}) as service:
        ended = await service.run("Reporter", "look")

        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "cost_budget")
        assert ended.result.text == "the disk is full"
        assert any("does not fit its `output_schema`" in each for each in ended.result.metadata["warnings"])


CHAIN = """
agents: {{A: {{description: does a, max_iterations: 8}}, B: {{description: does b, max_iterations: 8}}}}
agent_chains: {{both: {{limits: {{max_cost_usd: {usd}}}, stages: [{{name: look, agents: [A, B]}}]}}}}
"""


@pytest.mark.parametrize("usd", [0.1, 0.2])
async def test_a_stage_keeps_the_money_for_merging_what_its_agents_report(tmp_path: Path, usd: float) -> None:
    def answer(request: Request) -> Turn:
        return say("merged").using(used(request)) if request.agent == "Synthesizer" else greedy(request)

    async with bench(tmp_path, MODELS + CHAIN.format(usd=usd), {"*": answer}) as service:
        ended = await service.run("both", "look")

        assert ended.result is not None
        assert ended.result.text == "merged"
        assert cost(service) <= usd
        told = service.model.of("Synthesizer")[0].messages[0].text
        assert ("A found" in told, "B found" in told) == (True, True)


ROUTE = """
agents:
  Desk: {{strategy: route, description: answers, sub_agents: [Data], limits: {{max_cost_usd: {usd}}}}}
  Data: {{description: looks up data, max_iterations: 8}}
"""


@pytest.mark.parametrize("usd", [0.08, 0.1])
async def test_a_route_keeps_the_money_for_putting_data_into_words(tmp_path: Path, usd: float) -> None:
    def answer(request: Request) -> Turn:
        if request.agent == "Classifier":
            return say('{"primaryIntent": "Data"}').using(used(request))
        if request.agent == "Composer":
            return say("in words").using(used(request))
        turn = call("nothing") if request.tools else say('{"disk": "' + "full " * 500 + '"}')
        return turn.using(used(request, 900))

    async with bench(tmp_path, MODELS + ROUTE.format(usd=usd), {"*": answer}) as service:
        ended = await service.run("Desk", "look")

        assert ended.result is not None
        assert (ended.result.text, ended.result.outcome) == ("in words", "partial")
        assert cost(service) <= usd


@pytest.mark.parametrize("where", ["A", "B", "Composer"])
async def test_a_plan_that_goes_on_after_a_stop_still_has_the_money_for_its_composer(tmp_path: Path, where: str) -> None:
    """A composer that was cut off itself is charged, and may be too dear a second time: then the steps answer."""

    def answer(request: Request) -> Turn:
        if request.agent == "Planner":
            return planned.plan(planned.A, planned.B, planned.C).using(used(request))
        return say("in short: all full").using(used(request)) if request.agent == "Composer" else greedy(request)

    def stops(request: Request) -> Turn:
        return hang() if request.agent == where else answer(request)

    config = MODELS + PLAN.format(usd=0.15)
    async with bench(tmp_path, config, {"*": stops}) as service:
        started = await service.dispatcher.start(Order("Assistant", "look"))
        with anyio.fail_after(10):
            await service.model.started(where)

    async with after_a_stop(tmp_path, {"*": answer}, config=config) as service:
        ended = await service.ended(started.id)

        assert ended.result is not None
        said = "A found the disk is full." if where == "Composer" else "in short: all full"
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "cost_budget")
        assert ended.result.text.startswith(said)
        assert cost(service) <= 0.15
        assert {row["budget_reserved_usd"] for row in service.sql("select budget_reserved_usd from executions")} == {0.0}
