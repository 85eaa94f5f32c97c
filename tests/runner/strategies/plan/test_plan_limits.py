"""A plan has one time, one budget and one life, whatever it is made of; what they end in is told, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from registry import Limits
from runner.llm.protocol import Request, Usage
from runner.service.order import Order
from tests.properties.verdicts import PROMISES
from tests.runner.strategies.plan.planned import A, B, C, config, plan, plan_events, step, steps
from tests.support.models import Turn, hang, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

NESTED = """
agents:
  Assistant: {{strategy: plan, sub_agents: [A, Sub], {settings}}}
  Sub: {{strategy: plan, description: plans a part, sub_agents: [Lead, C]}}
  Lead: {{description: leads, sub_agents: [B]}}
  A: {{description: does a}}
  B: {{description: does b}}
  C: {{description: does c}}
"""


def limited(limits: str, settings: str = "") -> str:
    return config(settings).replace("description: plans,", f"description: plans, {limits},")


def asked(service: Bench) -> list[str]:
    return [request.agent for request in service.model.requests]


@requirement("S0-NFR-1", "S0-NFR-5", "S0-AC-3", "S0-EX-1")
async def test_a_plan_that_takes_too_long_stops_and_its_reserve_is_for_telling_what_there_is(tmp_path: Path) -> None:
    scripts = {"Planner": [plan(A, B, C)], "A": [say("alpha")], "B": lambda _: hang(), "Composer": [say("so far: alpha")]}
    async with bench(tmp_path, limited("timeout: 1500ms, limits: {wrap_up_reserve: 600ms}"), scripts) as service:
        began = anyio.current_time()
        ended = await service.run("Assistant")

        assert anyio.current_time() - began < 1.5 + Limits().cancel_grace
        assert ended.result is not None
        assert (ended.result.text, ended.result.outcome) == ("so far: alpha", "partial")
        first, second = ended.result.errors
        assert (first.type, second.type) == ("timeout", "timeout")
        assert first.message == "the time of the plan ran out before `step_2`, `step_3`"
        assert "step `step_2` (B)" in second.message
        assert steps(service) == {"step_1": "completed", "step_2": "timed_out", "step_3": "skipped"}
        assert list(dict.fromkeys(asked(service))) == ["Planner", "A", "B", "Composer"]
        assert plan_events(service)[-1] == "plan.failed"


@requirement("S0-NFR-1", "S0-NFR-5")
async def test_a_plan_without_a_reserve_is_cut_off_with_what_its_steps_brought(tmp_path: Path) -> None:
    scripts = {"Planner": [plan(A, B, C)], "A": [say("alpha")], "B": lambda _: hang()}
    async with bench(tmp_path, limited("timeout: 600ms, limits: {wrap_up_reserve: 0s}"), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.status == "timed_out"
        assert ended.result is not None
        assert (ended.result.text, ended.result.outcome, ended.result.errors[0].type) == ("alpha", "partial", "timeout")
        assert service.sql("select status from plans") == [{"status": "failed"}], "it is not at work any more"


@requirement("S0-NFR-1")
async def test_a_planner_that_misses_the_deadline_is_a_timeout_and_the_user_is_told_in_words(tmp_path: Path) -> None:
    async with bench(tmp_path, limited("timeout: 500ms"), {"Planner": lambda _: hang()}) as service:
        ended = await service.run("Assistant")

        assert ended.status == "failed"
        assert ended.result is not None
        assert [error.type for error in ended.result.errors] == ["timeout", "planning_failed"]
        assert ended.result.text.startswith("I could not work out how to do this.")


async def test_the_time_of_a_plan_binds_whatever_works_below_it(tmp_path: Path) -> None:
    nested = [plan(step("part", "Lead")), plan(A, step("deep", "Sub"))]
    scripts = {
        "Planner": lambda request: nested[int('name="A"' in request.system)],
        "A": [say("alpha")],
        "Lead": lambda _: hang(),
        "Composer": [say("so far")],
    }
    async with bench(tmp_path, NESTED.format(settings="timeout: 1500ms"), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.errors[0].type) == ("partial", "timeout")
        deadlines = service.sql("select depth, deadline_at from executions where deadline_at is not null order by depth")
        assert {row["depth"] for row in deadlines} == {0, 1, 2}
        assert all(row["deadline_at"] <= deadlines[0]["deadline_at"] for row in deadlines)


@requirement("S0-OQ-1")
@pytest.mark.parametrize(
    ("limit", "reason"), [("max_tokens: 17500", "token_budget"), ("max_cost_usd: 0.05", "cost_budget")]
)
async def test_no_step_begins_that_the_budget_of_the_plan_does_not_pay(tmp_path: Path, limit: str, reason: str) -> None:
    much = Usage(input_tokens=8_000, output_tokens=100)
    works = [say(word).using(much) for word in ("alpha", "beta", "never said")]
    scripts = {"Planner": [plan(A, B, C)], "A": works[:1], "B": works[1:2], "C": works[2:], "Composer": [say("all done")]}
    models = "models: {m: {model: x, max_tokens: 1000, price: {input: 2.5, output: 10}}}\n"
    async with bench(tmp_path, models + limited(f"limits: {{{limit}}}"), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason) == ("partial", reason)
        assert ended.result.text == "alpha\n\nbeta\n\nNot done:\n- do it"
        assert ended.result.errors[0].message.endswith("of the plan ran out before `step_3`")
        assert steps(service) == {"step_1": "completed", "step_2": "completed", "step_3": "skipped"}
        assert asked(service) == ["Planner", "A", "B"]
        [spent] = service.sql("select subtree_tokens, subtree_cost_usd from execution_tree where depth = 0")
        assert spent["subtree_tokens"] <= 17_500
        assert spent["subtree_cost_usd"] <= 0.05


async def test_a_cancelled_plan_ends_as_one_tree(tmp_path: Path) -> None:
    nested = [plan(step("part", "Lead"), step("rest", "C")), plan(A, step("deep", "Sub"), step("last", "A", "again"))]
    scripts = {
        "Planner": lambda request: nested[int('name="A"' in request.system)],
        "A": [say("alpha")],
        "Lead": lambda _: hang(),
    }
    async with bench(tmp_path, NESTED.format(settings="timeout: 60s"), scripts) as service:
        started = await service.dispatcher.start(Order("Assistant", "do it"))
        with anyio.fail_after(10):
            await service.model.started("Lead")
        assert await service.dispatcher.cancel(started.id, "Ada", "never mind") == "requested"
        ended = await service.ended(started.id)

        assert ended.status == "cancelled"
        assert ended.result is not None
        assert ended.result.text == "alpha", "what there was, without the plan itself"
        rows = service.sql("select agent, status from executions order by created_at, position")
        assert [row["status"] for row in rows if row["agent"] in ("Planner", "A")] == ["completed"] * 2 + ["cancelled"] + [
            "completed"
        ]
        assert {row["status"] for row in rows if row["agent"] not in ("Planner", "A")} == {"cancelled"}
        assert {row["status"] for row in service.sql("select status from plans")} == {"failed"}
        assert asked(service)[-1] == "Lead", "nobody was asked after that"
        assert {each: found for each, query in PROMISES.items() if (found := service.sql(query))} == {}


async def test_plans_in_plans_are_not_nested_deeper_than_anything_else(tmp_path: Path) -> None:
    nested = "\n".join(f"  P{at}: {{strategy: plan, description: p, sub_agents: [P{at + 1}]}}" for at in range(4))
    names = ("P1", "P2", "P3", "P4")

    def planner(request: Request) -> Turn:
        return plan(step("s", next(name for name in names if f'name="{name}"' in request.system)))

    scripts = {"Planner": planner, "Composer": lambda _: say("so far")}
    async with bench(tmp_path, f"agents:\n{nested}\n  P4: {{description: works}}\n", scripts) as service:
        ended = await service.run("P0")

        assert ended.result is not None
        assert ended.result.errors[0].type == "max_depth_exceeded"
        assert service.sql("select max(depth) as deepest from executions") == [{"deepest": 3}]
        assert len(service.model.of("Planner")) == 3, "no planner is asked for a plan that cannot run"
