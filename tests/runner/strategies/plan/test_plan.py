"""Plans: steps in order, each with what the ones before it brought, revised when it must be, and an answer of it all."""

from __future__ import annotations

from pathlib import Path

import anyio

from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.strategies.plan.planned import A, B, C, config, plan, plan_events, roles, step, steps
from tests.support.models import fail, gate, say
from tests.support.requirement import requirement
from tests.support.service import bench

WORKERS = {"A": [say("alpha")], "B": [say("beta")], "C": [say("gamma")]}


def first(request: Request) -> str:
    return request.messages[0].text


@requirement("S0-FR-1", "S0-FR-5", "S0-AC-1", "S0-CTX-5", "S0-CO-1", "S0-CO-2", "S0-OQ-4")
async def test_steps_run_one_after_the_other_and_each_sees_what_came_before(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {**WORKERS, "Planner": [plan(A, B, C)], "B": [gate(opened, say("beta"))], "Composer": [say("all done")]}
    async with bench(tmp_path, config(), scripts) as service:
        started = await service.dispatcher.start(Order("Assistant", "do a, b and c"))
        await service.until(lambda: steps(service).get("step_2") == "running")
        assert steps(service) == {"step_1": "completed", "step_2": "running", "step_3": "pending"}
        assert plan_events(service) == ["plan.planning", "plan.executing"]
        opened.set()
        ended = await service.ended(started.id)
        assert ended.status == "completed"
        assert ended.result is not None
        assert ended.result.text == "all done"
        assert roles(service) == ["root", "planner", "step", "step", "step", "composer"]
        assert "alpha" in first(service.model.of("B")[0])
        third = first(service.model.of("C")[0])
        assert '<step id="step_1"' in third
        assert '<step id="step_2"' in third
        composer = first(service.model.of("Composer")[0])
        assert all(word in composer for word in ("alpha", "beta", "gamma", "do a, b and c"))
        assert plan_events(service)[-1] == "plan.completed"


@requirement("S0-FR-3", "S0-AC-2", "S0-EX-5", "S0-CO-5", "S0-NFR-5", "S0-PM-5")
async def test_a_step_that_fails_ends_the_plan_and_what_succeeded_is_returned(tmp_path: Path) -> None:
    scripts = {**WORKERS, "Planner": [plan(A, B, C)], "B": [fail("invalid", "no", recoverable=False)], "Composer": [fail()]}
    async with bench(tmp_path, config("max_replans: 0"), scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert ended.result.outcome == "partial"
        assert ended.result.text == "alpha\n\nNot done:\n- do it"
        assert "step `step_2` (B)" in ended.result.errors[0].message
        assert steps(service) == {"step_1": "completed", "step_2": "failed", "step_3": "skipped"}
        composer = first(service.model.of("Composer")[0])
        assert 'status="failed"' in composer
        assert 'status="skipped"' in composer


@requirement("S0-FR-2", "S0-EX-4", "S0-RP-4", "S0-PM-3", "S0-PM-4")
async def test_a_failure_leads_to_another_plan_that_keeps_what_is_done(tmp_path: Path) -> None:
    revised = plan(A, step("step_2", "C", "do it differently"))
    planner = [plan(A, B, C), revised]
    scripts = {
        **WORKERS,
        "Planner": lambda request: planner.pop(0),
        "B": [fail("invalid", "no", recoverable=False)],
        "Composer": [say("done")],
    }
    async with bench(tmp_path, config(), scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert len(service.model.of("A")) == 1
        assert steps(service) == {
            "step_1": "completed",
            "step_2": "failed",
            "step_3": "skipped",
            "step_2_v2": "completed",
        }
        assert plan_events(service) == [
            "plan.planning",
            "plan.executing",
            "plan.replanning",
            "plan.executing",
            "plan.completed",
        ]
        versions = service.sql("select version, status, trigger from plans order by version")
        assert [row["version"] for row in versions] == [1, 2]
        assert "step_failed" in versions[1]["trigger"]


@requirement("S0-FR-6", "S0-C-4", "S0-EX-2", "S0-PM-6")
async def test_a_step_that_fails_is_tried_again_inside_the_same_execution(tmp_path: Path) -> None:
    tries = [fail("overloaded"), fail("overloaded"), say("alpha at last")]
    scripts = {"Planner": [plan(A)], "A": lambda _: tries.pop(0), "Composer": [say("done")]}
    async with bench(tmp_path, config(), scripts) as service:
        ended = await service.run("Assistant")
        assert ended.result is not None
        assert ended.result.outcome == "completed"
        assert len(service.model.of("A")) == 3
        assert steps(service) == {"step_1": "completed"}
        again = service.sql("select payload from events where type = 'execution.retrying' order by seq")
        assert len(again) == 2
        assert "earlier attempt" in first(service.model.of("A")[-1])
