"""Budgets of dispatched agents: taken out of their caller's at birth, given back at the end, kept through a crash."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.errors import Refusal
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.strategies.loop.spenders import CONFIG, MODELS, cost, notes, reserved, steps, worth
from tests.support.models import Turn, call, crash, fail, gate, hang, say
from tests.support.reading import delivered, dispatch, results
from tests.support.service import bench
from tests.support.spending import used


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
        assert "the budget does not cover an answer of `Left`" in refusal["content"]
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

        [account] = live.allowance.budget.accounts
        assert account.spent == pytest.approx(cost(service))
        assert round(account.reserved, 9) == 0
        assert set(reserved(service).values()) == {0}
        [row] = service.sql(
            "select cost_usd, input_tokens + output_tokens as tokens from model_calls where pricing = 'lost'"
        )
        assert lost.max_tokens is not None
        assert row["cost_usd"] > lost.max_tokens * 10e-6  # as much as was set aside for it
        assert before + row["cost_usd"] < cost(service) <= 0.3
        assert again.max_tokens is not None
        assert len(notes(again)) == len(notes(lost)) == 1  # it is not told twice
