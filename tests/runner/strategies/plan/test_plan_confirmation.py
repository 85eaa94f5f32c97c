"""Steps a person has to allow: they wait as rows, at nobody's cost, and run or are skipped as the person says."""

from __future__ import annotations

from pathlib import Path

import anyio

from db.store.engine import sqlite_library
from runner.service.order import Order
from tests.runner.resume.resuming import after_a_stop
from tests.runner.strategies.plan.planned import A, config, plan, plan_events, step, steps
from tests.support.gated import NO, YES, asked, decide
from tests.support.models import hang, say
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

RISKY = step("step_2", "B", "delete all reminders", requiresConfirmation=True)
REST = step("step_3", "C", "tidy up")
SCRIPTS = {
    "Planner": [plan(A, RISKY, REST)],
    "A": [say("alpha")],
    "B": [say("deleted")],
    "C": [say("tidy")],
    "Composer": [say("all done")],
}


def waiting(service: Bench) -> list[tuple[str, str, str | None]]:
    rows = service.sql("select step_id, status, waiting_for from executions where role = 'step' order by position")
    return [(row["step_id"], row["status"], row["waiting_for"]) for row in rows]


@requirement("S0-OQ-3")
async def test_a_step_waits_until_a_person_allows_it_and_the_clock_of_the_plan_stands_still(tmp_path: Path) -> None:
    limits = config().replace("description: plans,", "description: plans, timeout: 2s,")
    async with bench(tmp_path, limits, SCRIPTS) as service:
        started = await service.dispatcher.start(Order("Assistant", "clean up"))
        [question] = await asked(service)
        assert (question.tool, question.agent) == ("run_step", "Assistant")
        assert question.arguments == {"step": "step_2", "agent": "B", "task": "delete all reminders"}
        assert waiting(service) == [
            ("step_1", "completed", None),
            ("step_2", "pending", "approval"),
            ("step_3", "pending", None),
        ]
        [row] = service.sql("select id from executions where step_id = 'step_2'")
        assert await service.dispatcher.approvals.open(row["id"]) == [question]
        root = service.dispatcher.tree.get(started.id)
        assert root is not None
        assert root.allowance.stands
        assert not service.model.of("B")
        assert await decide(service, question, YES)
        ended = await service.ended(started.id)

        assert ended.result is not None
        assert ended.result.outcome == "completed"
        assert waiting(service) == [(f"step_{number}", "completed", None) for number in (1, 2, 3)]
        assert [request.agent for request in service.model.requests] == ["Planner", "A", "B", "C", "Composer"]


@requirement("S0-OQ-3")
async def test_a_step_that_is_refused_is_skipped_and_so_is_what_builds_on_it(tmp_path: Path) -> None:
    for number, (rest, status) in enumerate([(REST, "completed"), ({**REST, "dependsOn": ["step_2"]}, "blocked")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        planned = plan(A, RISKY, rest)
        async with bench(folder, config("max_replans: 0"), {**SCRIPTS, "Planner": [planned]}) as service:
            started = await service.dispatcher.start(Order("Assistant", "clean up"))
            [question] = await asked(service)
            await decide(service, question, NO)
            ended = await service.ended(started.id)

            assert ended.result is not None
            assert ended.result.outcome == "partial"
            assert steps(service) == {"step_1": "completed", "step_2": "skipped", "step_3": status}
            assert not service.model.of("B")
            assert "a person did not allow it" in service.model.of("Composer")[0].messages[0].text


async def test_others_do_not_wait_for_the_person_who_is_asked_about_one(tmp_path: Path) -> None:
    planned = plan(RISKY, A, {**REST, "dependsOn": ["step_1", "step_2"]})
    async with bench(tmp_path, config("max_concurrent: 2"), {**SCRIPTS, "Planner": [planned]}) as service:
        started = await service.dispatcher.start(Order("Assistant", "clean up"))
        [question] = await asked(service)
        await service.until(lambda: steps(service)["step_1"] == "completed")
        await decide(service, question)
        assert (await service.ended(started.id)).status == "completed"
        assert set(steps(service).values()) == {"completed"}


async def test_a_step_that_was_asked_about_is_not_asked_about_again_after_a_restart(tmp_path: Path) -> None:
    async with bench(tmp_path, config(), SCRIPTS) as before:
        started = await before.dispatcher.start(Order("Assistant", "clean up"))
        [question] = await asked(before)

    async with after_a_stop(tmp_path, SCRIPTS, config=config()) as between:
        [again] = await asked(between)
        assert again.id == question.id
        await between.until(lambda: waiting(between)[1] == ("step_2", "pending", "approval"))
        assert not between.model.requests

    _approve_meanwhile(tmp_path / "outrider.db", question.id)
    async with after_a_stop(tmp_path, {**SCRIPTS, "C": lambda _: hang()}, config=config()) as after:
        with anyio.fail_after(10):
            await after.model.started("C")
        assert steps(after) == {"step_1": "completed", "step_2": "completed", "step_3": "running"}

    async with after_a_stop(tmp_path, SCRIPTS, config=config()) as last:
        ended = await last.ended(started.id)
        assert ended.result is not None
        assert ended.result.outcome == "completed"
        assert [request.agent for request in last.model.requests] == ["C", "Composer"]
        assert len(last.sql("select id from approvals")) == 1
        assert plan_events(last) == ["plan.planning", "plan.executing", "plan.completed"]


async def test_a_yes_that_was_used_up_when_the_process_was_killed_is_not_asked_for_again(tmp_path: Path) -> None:
    async with bench(tmp_path, config(), SCRIPTS) as before:
        started = await before.dispatcher.start(Order("Assistant", "clean up"))
        [question] = await asked(before)
    _approve_meanwhile(tmp_path / "outrider.db", question.id)
    _written(tmp_path / "outrider.db", "update approvals set used_at = requested_at")
    _written(tmp_path / "outrider.db", "update tool_calls set status = 'started'")

    async with after_a_stop(tmp_path, SCRIPTS, config=config()) as after:
        assert (await after.ended(started.id)).status == "completed"
        assert set(steps(after).values()) == {"completed"}
        assert [row["kind"] for row in after.sql("select kind from approvals")] == ["gate"]


def _approve_meanwhile(database: Path, approval: str) -> None:
    """Somebody allows it while no service is there, as `outrider approve` of another process does."""
    _written(database, "update approvals set decision = 'approved', decided_by = 'Ada' where id = ?", approval)


def _written(database: Path, statement: str, *parameters: str) -> None:
    connection = sqlite_library().connect(str(database))
    with connection:
        connection.execute(statement, parameters)
    connection.close()


async def test_a_plan_that_is_stopped_or_asked_to_conclude_while_it_waits_takes_its_question_back(tmp_path: Path) -> None:
    async with bench(tmp_path, config(), SCRIPTS) as service:
        first = await service.dispatcher.start(Order("Assistant", "clean up"))
        [question] = await asked(service)
        await service.dispatcher.cancel(first.id, "Ada", "no more")
        assert (await service.ended(first.id)).status == "cancelled"
        assert not await decide(service, question)
        assert set(steps(service).values()) == {"completed", "cancelled"}
        assert service.sql("select status, error_type from tool_calls") == [{"status": "failed", "error_type": "cancelled"}]

        second = await service.dispatcher.start(Order("Assistant", "clean up"))
        await asked(service)
        assert await service.dispatcher.ask_to_wrap_up(second.id) == "requested"
        ended = await service.ended(second.id)
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "asked")
        assert [row["decision"] for row in service.sql("select decision from approvals")] == ["withdrawn", "withdrawn"]
        assert not service.model.of("B")
