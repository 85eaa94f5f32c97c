"""Budgets: every call is paid for before it is made, a conclusion always can be, and what is not used comes back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner import countdown
from runner.dispatcher import Order
from runner.errors import Refusal
from runner.llm.protocol import Request
from runner.shortening import MARK
from server.app import Blueprint, open_service
from tests.support.local_tools import LocalTools
from tests.support.messages_api import messages_api, reply, text
from tests.support.models import Turn, call, crash, fail, gate, hang, say
from tests.support.reading import delivered, dispatch, results, shown
from tests.support.requirement import requirement
from tests.support.service import Bench, bench, settings_of
from tests.support.spending import used

MODELS = """
models:
  m: {model: some-model, max_tokens: 2000,
      price: {input: 2, output: 10, cache_read: 1, cache_write: 2.5, cache_write_1h: 4}}
"""
CONFIG = (
    MODELS
    + """
agents:
  Lead: {sub_agents: [Left, Right], limits: {max_cost_usd: 0.5}}
  Left: {description: looks left}
  Right: {description: looks right}
"""
)


def worth(usd: float) -> str:
    """The configuration with another budget for the lead."""
    return CONFIG.replace("max_cost_usd: 0.5", f"max_cost_usd: {usd}")


def steps(*turns: Turn, output: int = 50) -> Callable[[Request], Turn]:
    """The turns of one agent in order, each at the price of what was really asked; without tools it concludes."""
    rest = list(turns)

    def answer(request: Request) -> Turn:
        turn = rest.pop(0) if request.tools else say("concluded")
        return turn.using(used(request, output))

    return answer


def cost(service: Bench) -> float:
    """What the tree of the only root cost."""
    [row] = service.sql("select subtree_cost_usd as cost from execution_tree where depth = 0")
    return float(row["cost"])


# -- one execution -----------------------------------------------------------------------------------------------------


@requirement("S2-GR-12")
async def test_an_answer_is_as_long_as_the_budget_pays_for_and_the_api_is_told(tmp_path: Path) -> None:
    config = """
    models:
      m: {{model: m, base_url: "{url}", price: {{input: 2, output: 10, cache_write: 2.5, cache_read: 1}}}}
    agents: {{Left: {{description: looks}}}}
    """
    async with messages_api(reply(text("so"))) as api:
        settings = settings_of(tmp_path, config.format(url=api.url))
        blueprint = Blueprint(settings, tmp_path / "x.db", environ={"ANTHROPIC_API_KEY": "canary-key"})
        async with open_service(blueprint) as dispatcher:
            with anyio.fail_after(20):
                for budget in (None, 1.0, 0.05):
                    order = Order("Left", "look", budget_usd=budget)
                    await dispatcher.wait((await dispatcher.start(order)).id)

    free, rich, poor = [request.body["max_tokens"] for request in api.requests]
    assert (free, rich) == (8192, 8192)
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
    script = {"Lead": steps(call("flood") + call("nothing"))}
    async with bench(tmp_path, worth(0.1), script, tools) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.reason, ended.result.text) == ("cost_budget", "concluded")
        long, short = results(service.model.requests[-1])
        assert long["content"].startswith("first of all")
        assert long["content"].endswith(MARK)
        assert MARK not in short["content"]
        assert cost(service) <= 0.1
        [row] = service.sql("select length(result) as length from tool_calls where tool = 'local.flood'")
        assert row["length"] > 200_000  # what was brought is kept


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
        [purse] = live.allowance.budget.purses
        assert (purse.calls, round(purse.reserved, 9)) == (0, 0)
        assert purse.spent == pytest.approx(cost(service))


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
            ["the budget does not count everything: `m` has no price for cache_read, cache_write"],
            ["the budget does not count everything: `free` has no price for input, output, cache_read, cache_write"],
            None,
        ]
        assert len(service.sql("select 1 from events where type = 'budget.unpriced'")) == 2


# -- trees -------------------------------------------------------------------------------------------------------------


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
            while not any("waiting for money" in each.activity for each in service.dispatcher.tree):
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


# -- budgets of children -----------------------------------------------------------------------------------------------


def reserved(service: Bench) -> dict[str, float]:
    """What is taken out of the budget of each agent's execution."""
    rows = service.sql("select agent, budget_reserved_usd from executions")
    return {row["agent"]: row["budget_reserved_usd"] for row in rows}


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled", "pending"])
async def test_a_budget_given_to_a_child_is_taken_out_of_its_parents_until_it_ends(tmp_path: Path, ending: str) -> None:
    opened, seen = anyio.Event(), anyio.Event()
    config = CONFIG.replace("sub_agents", "max_concurrent_agents: 1, sub_agents") if ending == "pending" else CONFIG

    async def lead(request: Request) -> Turn:
        if len(request.messages) == 1:
            return (dispatch("Right", budget_usd=0.1) + dispatch("Left", budget_usd=0.2)).using(used(request))
        await seen.wait()
        return say("done").using(used(request))

    scripts: dict[str, Any] = {
        "Lead": lead,
        "Left": [gate(opened, fail() if ending == "failed" else say("left"))],
        "Right": [gate(opened, say("right"))],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(10):
            await service.model.started("Lead", 2)
            before = reserved(service)
            if ending in ("cancelled", "pending"):
                [left] = service.sql("select id, status from executions where agent = 'Left'")
                assert left["status"] == ("pending" if ending == "pending" else "running")
                await service.dispatcher.cancel(left["id"], by="somebody", reason="enough")
                await service.dispatcher.wait(left["id"])
                assert reserved(service)["Lead"] == 0.1
            opened.set()
            seen.set()
            await service.dispatcher.wait(started.id)

        assert before == {"Lead": pytest.approx(0.3), "Left": 0, "Right": 0}
        assert set(reserved(service).values()) == {0}
        froms = service.sql("select distinct budget_from_execution_id as holder from executions where depth = 1")
        assert froms == [{"holder": started.id}]


async def test_a_budget_is_taken_from_the_nearest_that_has_one_and_freed_when_what_is_between_ends(tmp_path: Path) -> None:
    config = (
        MODELS
        + """
agents:
  Top: {sub_agents: [Middle], limits: {max_cost_usd: 1}}
  Middle: {description: in between, sub_agents: [Leaf], limits: {on_finish: wait}}
  Leaf: {description: below}
"""
    )
    broken = anyio.Event()

    def middle(request: Request) -> Turn:
        if len(request.messages) == 1:
            return dispatch("Leaf", budget_usd=0.4)
        return gate(broken, crash(RuntimeError("a bug")))

    scripts = {"Top": steps(dispatch("Middle"), say("waiting"), say("done")), "Middle": middle, "Leaf": [hang()]}
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Top"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")
            await service.model.started("Middle", 2)
            assert reserved(service) == {"Top": 0.4, "Middle": 0, "Leaf": 0}
            broken.set()
            await service.dispatcher.wait(started.id)

        assert service.statuses() == {"Top": ["completed"], "Middle": ["failed"], "Leaf": ["cancelled"]}
        assert set(reserved(service).values()) == {0}


async def test_a_parent_that_gave_its_money_away_waits_for_it_instead_of_concluding(tmp_path: Path) -> None:
    scripts = {
        "Lead": steps(dispatch("Left", budget_usd=5), say("done")),
        "Left": steps(call("nothing"), say("left")),
    }
    async with bench(tmp_path, worth(0.1), scripts) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.text) == ("completed", "done")
        assert [each.text for each in delivered(service.model.of("Lead")[-1])] == ["left"]
        assert len(service.model.of("Lead")) == 2


async def test_an_agent_whose_answer_cannot_be_paid_is_refused_and_leaves_no_row(tmp_path: Path) -> None:
    scripts = {"Lead": steps(dispatch("Left", budget_usd=0.001), say("alone"))}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Lead")
        with pytest.raises(Refusal) as refused:
            await service.dispatcher.start(Order("Right", budget_usd=0.001))

        assert ended.result is not None
        assert (ended.status, ended.result.text) == ("completed", "alone")
        [refusal] = results(service.model.of("Lead")[-1])
        assert refusal["is_error"]
        assert "the budget does not pay for an answer of `Left`" in refusal["content"]
        assert "hint:" in refusal["content"]
        assert (refused.value.kind, "`budget_usd`" in refused.value.hint) == ("budget", True)
        assert service.statuses() == {"Lead": ["completed"]}
        assert reserved(service) == {"Lead": 0}
        assert service.dispatcher.tree.root_slots.reserve().queue_position == 0


async def test_a_chain_whose_next_stage_cannot_be_paid_ends_with_what_it_has(tmp_path: Path) -> None:
    config = (
        CONFIG
        + """
agent_chains:
  c:
    limits: {max_cost_usd: 0.03}
    stages: [{name: one, agents: [Left]}, {name: two, agents: [Right]}]
"""
    )
    config = config.replace("looks right", "looks right, custom_instructions: " + "thoroughly " * 2000)
    scripts = {"Left": steps(say("found"), output=2000), "Right": steps(say("never"))}
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("c")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason) == ("partial", "cost_budget")
        assert "found" in ended.result.text
        assert service.statuses()["Right"] == ["skipped"]


# -- the countdown -----------------------------------------------------------------------------------------------------


def notes(request: Request) -> list[str]:
    """Our remarks in a conversation."""
    return [message.text for message in request.messages if message.kind == "note"]


async def test_the_model_is_told_once_each_what_runs_low_and_only_what_is_limited(tmp_path: Path) -> None:
    config = (
        MODELS
        + """
agents:
  Turns: {max_iterations: 10}
  Money: {limits: {max_cost_usd: 0.15, max_iterations: 100}}
  Tokens: {limits: {max_tokens: 20000, max_iterations: 100}}
"""
    )

    def work(request: Request) -> Turn:
        if not request.tools:
            return say("concluded").using(used(request))
        return call("nothing").using(used(request, 300))

    async with bench(tmp_path, config, {"*": work}) as service:
        for agent in ("Turns", "Money", "Tokens"):
            await service.run(agent)

        told = {agent: notes(service.model.of(agent)[-1]) for agent in ("Turns", "Money", "Tokens")}
        assert [len(each) for each in told.values()] == [2, 1, 1]
        assert "Of your 10 turns, 2 are left." in told["Turns"][0]
        assert "last turn with tools" in told["Turns"][1]
        assert "Of a budget of $0.1500, " in told["Money"][0]
        assert "Of a budget of 20,000 tokens, " in told["Tokens"][0]
        low = service.sql(
            "select json_extract(payload, '$.what') as what from events where type = 'budget.low' order by seq"
        )
        assert [row["what"] for row in low] == ["turns", "last_turn", "usd", "tokens"]
        assert all("turns" not in shown(request) for request in service.model.of("Money"))


async def test_the_model_is_told_that_its_time_runs_low_before_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(countdown, "LAST_SHARE", 1.0)  # low from the beginning, however busy the machine is
    config = MODELS + "agents: {Left: {limits: {timeout: 100s}}}"
    async with bench(tmp_path, config, {"Left": steps(call("nothing"), say("done"))}) as service:
        await service.run("Left")

        first, second = service.model.requests
        assert notes(first) == notes(second)
        [told] = notes(first)
        assert "seconds are left" in told
        assert [message.kind for message in first.messages] == ["task", "note"]  # last: what is cached stays as it is


# -- after a crash -----------------------------------------------------------------------------------------------------


async def test_what_was_spent_and_given_before_a_crash_counts_after_it_and_the_lost_call_is_charged(tmp_path: Path) -> None:
    config = worth(0.3).replace("looks left", "looks left, max_iterations: 2")
    scripts: dict[str, Any] = {
        "Lead": steps(dispatch("Left", budget_usd=0.1), say("waiting")),
        "Left": [lambda request: call("nothing").using(used(request, 1000)), hang()],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(10):
            await service.model.started("Lead", 2)
            lost = await service.model.started("Left", 2)
            before = cost(service)

    scripts = {"Lead": steps(say("done")), "Left": steps(say("left"))}
    async with bench(tmp_path, config, scripts) as service:
        await service.dispatcher.adopt()
        with anyio.fail_after(10):
            again = await service.model.started("Left")
            assert reserved(service) == {"Lead": 0.1, "Left": 0}
            live = service.dispatcher.tree.get(started.id)
            assert live is not None
            assert live.allowance.budget is not None
            await service.ended(started.id)

        [purse] = live.allowance.budget.purses
        assert purse.spent == pytest.approx(cost(service))
        assert round(purse.reserved, 9) == 0
        assert set(reserved(service).values()) == {0}
        [row] = service.sql(
            "select cost_usd, input_tokens + output_tokens as tokens from model_calls where pricing = 'lost'"
        )
        assert lost.max_tokens is not None
        assert row["cost_usd"] > lost.max_tokens * 10e-6  # as much as was set aside for it
        assert before + row["cost_usd"] < cost(service) <= 0.3
        assert again.max_tokens is not None
        assert len(notes(again)) == len(notes(lost)) == 1  # it is not told twice
