"""Every way out of a parent: children are waited for, or stopped and waited for; nothing is left alive."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from db.clock import moment
from runner.service.order import Order
from tests.support.local_tools import LocalTools, stubborn
from tests.support.models import Turn, call, fail, gate, hang, say
from tests.support.reading import delivered, dispatch
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
agents:
  Lead: {sub_agents: [Worker], limits: {timeout: 1100ms, wrap_up_reserve: 600ms, cancel_grace: 200ms}}
  Worker: {description: works, limits: {cancel_grace: 200ms}}
"""


def nothing_left(service: Bench) -> bool:
    """No task, no model call and no open row."""
    rows = service.sql("select id from executions where finished_at is null or status in ('pending', 'running')")
    return not rows and not list(service.dispatcher.tree) and service.model.running == 0


@requirement("S2-WA-1")
async def test_a_parent_with_an_answer_waits_for_its_children(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [dispatch("Worker"), say("my answer"), say("my answer, with theirs")],
        "Worker": [gate(opened, say("theirs"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        async with service.dispatcher.services.bus.watch() as events:
            started = await service.dispatcher.start(Order("Lead"))
            with anyio.fail_after(5):
                while '"waiting_for":"children"' not in (await events.receive())["payload"]:
                    pass
                assert service.sql("select status, waiting_for from executions where agent = 'Lead'") == [
                    {"status": "running", "waiting_for": "children"}
                ]
                opened.set()
                ended = await service.dispatcher.wait(started.id)

        assert ended.result is not None
        assert ended.result.text == "my answer, with theirs"
        assert service.statuses()["Worker"] == ["completed"]


@requirement("S2-WA-2", "S2-GR-7", "S2-LE-7")
async def test_children_that_still_run_when_the_time_is_nearly_over_are_stopped_and_the_parent_concludes(
    tmp_path: Path,
) -> None:
    scripts = {
        "Lead": [dispatch("Worker"), say("waiting"), say("concluded")],
        "Worker": [say("half") + call("nothing"), hang(), hang()],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        with anyio.fail_after(3):
            ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "time_budget")
        assert service.statuses()["Worker"][0] in ("cancelled", "timed_out")
        assert [each.text for each in delivered(service.model.of("Lead")[-1])] == ["half"]
        assert nothing_left(service)


@requirement("S2-WA-4", "S2-WA-3", "S2-CA-5")
@pytest.mark.parametrize("way", ["answer", "error", "timeout", "cancel"])
async def test_on_every_way_out_no_task_and_no_live_row_is_left(tmp_path: Path, way: str) -> None:
    both_work = anyio.Event()
    ends: dict[str, list[Turn]] = {
        "answer": [say("done"), say("done")],
        "error": [gate(both_work, fail())],
        "timeout": [hang(), hang()],
        "cancel": [hang()],
    }
    worker = say("quick") if way == "answer" else hang()
    scripts = {"Lead": [dispatch("Worker") + dispatch("Worker"), *ends[way]], "Worker": [worker, hang()]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Worker", 2)
            both_work.set()
            if way == "cancel":
                await service.model.started("Lead", 2)
                await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            ended = await service.dispatcher.wait(started.id)

        expected = {"answer": "completed", "error": "failed", "timeout": "timed_out", "cancel": "cancelled"}
        assert ended.status == expected[way]
        assert nothing_left(service)
        rows = service.sql("select finished_at, parent_execution_id from executions")
        parent = next(row["finished_at"] for row in rows if row["parent_execution_id"] is None)
        assert all(moment(row["finished_at"]) <= moment(parent) for row in rows)


@requirement("S2-WA-5")
async def test_without_children_an_end_is_one_write_and_ends_once(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Worker": [say("done")]}) as service:
        ended = await service.run("Worker")
        assert await service.dispatcher.cancel(ended.id, by="somebody", reason="twice") == "already_finished"
        assert await service.dispatcher.cancel(ended.id, by="somebody", reason="thrice") == "already_finished"

        kinds = [row["type"] for row in service.sql("select type from events order by seq")]
        asked = ["timeline_event.created", "timeline_event.completed"]
        assert kinds == ["execution.status", "execution.status", *asked, "execution.status"]
        assert (await service.dispatcher.wait(ended.id)).status == "completed"


@requirement("S2-WA-6")
async def test_a_child_that_ignores_cancellation_is_given_up_after_the_grace_and_reported(tmp_path: Path) -> None:
    started_work, released = anyio.Event(), anyio.Event()

    async def stuck(_: Any) -> str:
        started_work.set()
        return await stubborn(released)

    scripts = {"Lead": [dispatch("Worker"), hang()], "Worker": [say("before it got stuck") + call("stuck")]}
    tools = LocalTools({"stuck": stuck})
    async with bench(tmp_path, CONFIG.replace("timeout: 600ms, ", ""), scripts, tools.for_agents("Worker")) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await started_work.wait()
            await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            ended = await service.dispatcher.wait(started.id)

        assert ended.status == "cancelled"
        row = service.sql("select status, error_type, error from executions where agent = 'Worker'")[0]
        assert (row["status"], row["error_type"]) == ("cancelled", "stubborn")
        assert "did not stop within the grace period" in row["error"]
        records = service.sql("select type, severity from error_records where type = 'stubborn'")
        assert {"type": "stubborn", "severity": "high"} in records
        assert {"status": "unknown"} in service.sql("select status from tool_calls where tool = 'local.stuck'")
        assert service.sql("select id from executions where finished_at is null") == []
        released.set()


@requirement("S2-WA-6", "S2-CN-5")
async def test_a_parent_goes_on_without_a_child_that_ignores_its_cancel(tmp_path: Path) -> None:
    started_work, released, asked = anyio.Event(), anyio.Event(), anyio.Event()

    async def stuck(_: Any) -> str:
        started_work.set()
        return await stubborn(released)

    def again(_: object) -> Turn:
        asked.set()
        return say("without it")

    scripts = {"Lead": [dispatch("Worker"), say("waiting"), again], "Worker": [say("a start") + call("stuck")]}
    tools = LocalTools({"stuck": stuck})
    config = CONFIG.replace("timeout: 600ms, ", "")
    async with bench(tmp_path, config, scripts, tools.for_agents("Worker")) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await started_work.wait()
            child = service.model.of("Worker")[0].execution_id
            await service.dispatcher.cancel(child, by="somebody", reason="enough")
            await asked.wait()
            assert [(each.status, each.text) for each in delivered(service.model.of("Lead")[-1])] == [
                ("cancelled", "a start")
            ]
            released.set()
            assert (await service.dispatcher.wait(started.id)).status == "completed"


@requirement("S2-WA-1")
async def test_a_parent_told_to_cancel_on_finish_does_not_wait(tmp_path: Path) -> None:
    config = CONFIG.replace("timeout: 1100ms, ", "on_finish: cancel, ")
    scripts = {"Lead": [dispatch("Worker"), say("my answer"), say("my answer stands")], "Worker": [hang()]}
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("Lead")

        assert ended.status == "completed"
        assert service.statuses() == {"Lead": ["completed"], "Worker": ["cancelled"]}


@requirement("S2-WA-2", "S2-WA-6", "S2-GR-6")
async def test_an_execution_stuck_beyond_its_deadline_is_given_up_after_the_grace(tmp_path: Path) -> None:
    released = anyio.Event()

    async def stuck(_: Any) -> str:
        return await stubborn(released)

    config = """
    defaults: {limits: {timeout: 600ms, agent_timeout: 300ms, wrap_up_reserve: 100ms, cancel_grace: 100ms}}
    agents:
      Lead: {sub_agents: [Worker]}
      Worker: {description: works}
    """
    scripts = {"Lead": [dispatch("Worker"), say("waiting"), say("concluded")], "Worker": [say("a start") + call("stuck")]}
    tools = LocalTools({"stuck": stuck})
    async with bench(tmp_path, config, scripts, tools.for_agents("Worker")) as service:
        with anyio.fail_after(10):
            started = await service.dispatcher.start(Order("Lead"))
            ended = await service.dispatcher.wait(started.id)
        assert ended.status in ("completed", "timed_out")
        assert service.sql("select id from executions where finished_at is null") == []
        (worker,) = service.sql("select status, error_type from executions where agent = 'Worker'")
        assert worker["error_type"] == "stubborn"
        released.set()


@requirement("S2-GR-14")
async def test_an_answer_that_cancels_the_rest_stands_without_another_model_call(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {sub_agents: [Worker], limits: {on_finish: cancel}}
      Worker: {description: works}
    """
    scripts = {"Lead": [dispatch("Worker"), say("I know enough")], "Worker": [hang()]}
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("Lead")
        assert ended.result is not None
        assert ended.result.text == "I know enough"
        assert len(service.model.of("Lead")) == 2
        (worker,) = service.sql("select status, outcome, cancelled_by from executions where agent = 'Worker'")
        assert worker == {"status": "cancelled", "outcome": "partial", "cancelled_by": "Lead"}
        assert service.sql("select count(*) as n from deliveries where consumed_at is null") == [{"n": 0}]


@requirement("S2-GT-6")
async def test_an_ended_execution_is_told_from_its_row_when_no_process_remembers_it(tmp_path: Path) -> None:
    config = "agents: {Solo: {}}"
    async with bench(tmp_path, config, {"Solo": [say("forty-two")]}) as service:
        ended = await service.run("Solo")
    async with bench(tmp_path, config, {}) as later:
        again = await later.dispatcher.wait(ended.id)
        assert again.result == ended.result
        assert (again.status, again.agent, again.task) == (ended.status, ended.agent, ended.task)
