"""Budgets: every call is paid for before it is made, a conclusion always can be, and what is not used comes back."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.llm.protocol import Request
from runner.service.order import Order
from runner.text import MARK
from server.app import Blueprint, open_service
from tests.runner.strategies.loop.spenders import MODELS, cost, steps, worth
from tests.support.local_tools import LocalTools
from tests.support.messages_api import messages_api, reply, text
from tests.support.models import Turn, call, crash, fail, gate, hang, say
from tests.support.reading import delivered, dispatch, results
from tests.support.requirement import requirement
from tests.support.service import bench, settings_of
from tests.support.spending import used


@requirement("S2-GR-12")
async def test_an_answer_is_as_long_as_the_budget_pays_for_and_the_api_is_told(tmp_path: Path) -> None:
    config = """
    models:
      m: {{model: m, base_url: "{url}", price: {{input: 2, output: 10, cache_write: 2.5, cache_read: 1}}}}
    agents: {{Left: {{description: looks}}, Brief: {{max_tokens: 300}}}}
    """
    async with messages_api(reply(text("so"))) as api:
        settings = settings_of(tmp_path, config.format(url=api.url))
        blueprint = Blueprint(settings, tmp_path / "x.db", environ={"ANTHROPIC_API_KEY": "canary-key"})
        async with open_service(blueprint) as dispatcher:
            with anyio.fail_after(20):
                for agent, budget in (("Left", None), ("Left", 1.0), ("Left", 0.05), ("Brief", None), ("Brief", 1.0)):
                    order = Order(agent, "look", budget_usd=budget)
                    await dispatcher.wait((await dispatcher.start(order)).id)

    free, rich, poor, *brief = [request.body["max_tokens"] for request in api.requests]
    assert (free, rich, brief) == (8192, 8192, [300, 300])
    assert 512 <= poor < 0.05 / 10e-6 - 1024  # a conclusion is kept back


async def test_what_is_left_when_the_money_is_used_up_is_a_conclusion_and_the_budget_holds(tmp_path: Path) -> None:
    async with bench(tmp_path, worth(0.1), {"Lead": steps(*[call("nothing")] * 50, output=400)}) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason, ended.result.text) == ("partial", "cost_budget", "concluded")
        assert 0.05 < cost(service) <= 0.1
        assert len(service.model.requests) > 3
        kinds = [row["type"] for row in service.sql("select type from events where type like 'budget.%' order by seq")]
        assert kinds == ["budget.low", "budget.exhausted"]


async def test_a_result_too_long_to_be_paid_is_cut_so_that_a_conclusion_can_be(tmp_path: Path) -> None:
    async def flood(_: Any) -> str:
        return "first of all: " + "x" * 200_000

    tools = LocalTools({"flood": flood}).for_agents("Lead")
    script = {"Lead": steps(call("flood") + call("flood") + call("nothing"))}
    async with bench(tmp_path, worth(0.1), script, tools) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.reason, ended.result.text) == ("cost_budget", "concluded")
        *long, short = results(service.model.requests[-1])
        assert all(each["content"].startswith("first of all") for each in long)
        assert all(each["content"].endswith(MARK) for each in long)
        assert MARK not in short["content"]
        assert cost(service) <= 0.1
        rows = service.sql("select length(full_result) as length from tool_calls where tool = 'local.flood'")
        assert all(row["length"] > 200_000 for row in rows)  # what was brought is kept


@pytest.mark.parametrize("ending", ["failed", "crashed", "timed_out", "cancelled"])
async def test_a_call_that_never_came_back_is_not_charged_and_keeps_nothing(tmp_path: Path, ending: str) -> None:
    lost = {"failed": fail(), "crashed": crash(RuntimeError("a bug"))}.get(ending, hang())
    config = worth(0.1).replace("looks left", "looks left, limits: {timeout: 300ms, wrap_up_reserve: 0s}")
    scripts: dict[str, Any] = {"Left": [lost], "Lead": steps(dispatch("Left"), say("waiting"), say("done"))}
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(10):
            call_of_child = await service.model.started("Left")
            live = service.dispatcher.tree.get(started.id)
            assert live is not None
            assert live.allowance.budget is not None
            if ending == "cancelled":
                await service.dispatcher.cancel(call_of_child.execution_id, by="somebody", reason="enough")
            ended = await service.dispatcher.wait(started.id)

        assert ended.status == "completed"
        assert service.statuses()["Left"] == ["failed" if ending == "crashed" else ending]
        [account] = live.allowance.budget.accounts
        assert (account.calls, round(account.reserved, 9)) == (0, 0)
        assert account.spent == pytest.approx(cost(service))


async def test_a_model_without_a_price_is_told_of_because_the_budget_cannot_bind(tmp_path: Path) -> None:
    config = """
    defaults: {model: free}
    models: {m: {model: some-model, price: {input: 1, output: 1}}, free: {model: other}}
    agents: {Left: {model: m}, Right: {}, Lead: {}}
    """
    async with bench(tmp_path, config, {"*": lambda request: say("so").using(used(request))}) as service:
        partly = await service.run("Left", budget_usd=0.5)
        unpriced = await service.run("Right", budget_usd=0.01)
        unlimited = await service.run("Lead")

        told = [each.result.metadata.get("warnings") for each in (partly, unpriced, unlimited) if each.result is not None]
        assert told == [
            ["the budget does not count every cost: `m` has no price for cache_read, cache_write"],
            ["the budget does not count every cost: `free` has no price for input, output, cache_read, cache_write"],
            None,
        ]
        assert len(service.sql("select 1 from events where type = 'budget.unpriced'")) == 2


async def test_a_call_waits_for_one_in_flight_that_may_not_use_all_that_was_set_aside(tmp_path: Path) -> None:
    opened = anyio.Event()
    config = worth(0.09).replace("looks right", "looks right, max_iterations: 1")

    async def left(request: Request) -> Turn:
        return gate(opened, say("left")).using(used(request))

    script = {
        "Lead": steps(dispatch("Left") + dispatch("Right"), say("waiting"), say("done")),
        "Left": left,
        "Right": steps(say("right")),
    }
    async with bench(tmp_path, config, script) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(10):
            await service.model.started("Left")
            while not any("waiting for budget" in each.activity for each in service.dispatcher.tree):
                await anyio.lowlevel.checkpoint()
            running = service.model.running
            opened.set()
            ended = await service.dispatcher.wait(started.id)

        assert running == 1
        assert ended.status == "completed"
        assert {each.agent: each.outcome for each in delivered(service.model.of("Lead")[-1])} == {
            "Left": "completed",
            "Right": "completed",
        }
        assert cost(service) <= 0.09


@requirement("S2-GR-12")
@pytest.mark.parametrize("limit", ["max_cost_usd: 0.2", "max_tokens: 30000"])
async def test_the_limit_of_a_parent_reaches_every_descendant(tmp_path: Path, limit: str) -> None:
    config = (
        MODELS
        + f"""
agents:
  Top: {{sub_agents: [Middle], limits: {{{limit}}}}}
  Middle: {{description: in between, sub_agents: [Leaf]}}
  Leaf: {{description: below}}
"""
    )

    def spend(request: Request) -> Turn:
        below = {"Top": "Middle", "Middle": "Leaf"}.get(request.agent)
        if not request.tools:
            return say("concluded").using(used(request))
        if below is not None:
            turn = dispatch(below) if len(request.messages) == 1 else say("waiting")
            return turn.using(used(request))
        return call("nothing").using(used(request, 400))

    async with bench(tmp_path, config, {"*": spend}) as service:
        await service.run("Top")

        [leaf] = service.sql("select outcome, reason from executions where agent = 'Leaf'")
        assert leaf == {"outcome": "partial", "reason": "cost_budget" if "cost" in limit else "token_budget"}
        [total] = service.sql("select subtree_tokens, subtree_cost_usd from execution_tree where depth = 0")
        assert total["subtree_cost_usd"] <= 0.2 if "cost" in limit else total["subtree_tokens"] <= 30_000
