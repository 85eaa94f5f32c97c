"""Executions whose process is gone are ended with a reason, once; those of living processes are left alone."""

from pathlib import Path

from db.endings import CancelWish
from runner.dispatcher import Order
from runner.facts import CancelWished
from tests.runner.neighbour import CONFIG, neighbours
from tests.support.requirement import requirement
from tests.support.service import bench


@requirement("S2-LE-12")
async def test_wherever_processes_are_killed_each_execution_has_a_result_or_is_called_interrupted(tmp_path: Path) -> None:
    with neighbours(tmp_path, 3) as doomed:
        for process, answers in zip(doomed, (1, 6, 14), strict=True):
            for _ in range(20):
                process.tell("start", name="Pair")
            for _ in range(answers):
                process.answer()
            process.kill()

    async with bench(tmp_path, CONFIG, {}) as service:
        await service.dispatcher.settle_interrupted()

        assert service.sql("select id from executions where finished_at is null") == []
        assert service.sql("select id from tool_calls where status = 'started'") == []
        roots = service.sql("select id from executions where parent_execution_id is null")
        assert len(roots) >= 1 + 6 + 14
        for root in roots:
            ended = await service.dispatcher.wait(root["id"])
            assert ended.result is not None
            assert (ended.status, ended.result.text) == ("completed", "done") or ended.result.reason == "interrupted"
        assert service.sql("select id from executions where result is null and status != 'cancelled'") == []


async def test_what_a_process_left_is_ended_once_however_many_settle_it(tmp_path: Path) -> None:
    with neighbours(tmp_path, 2) as (doomed, living):
        lead = doomed.ask("start", name="Lead", task="look", key="k")[0]
        doomed.ask("calling", execution=lead, tool="get_result")
        unwanted, alive = doomed.ask("start", name="Stuck")[0], living.ask("start", name="Stuck")[0]
        doomed.kill()
        async with bench(tmp_path, CONFIG, {}) as service:
            await service.dispatcher.services.recorder.record(CancelWished(CancelWish(unwanted, "ada", "enough")))

            living.tell("settle")
            ended = await service.dispatcher.settle_interrupted() + living.answer()

            assert ended == 4
            rows = service.sql("select id, agent, status, error_type, finished_at from executions order by id")
            assert [(row["agent"], row["status"], row["error_type"]) for row in rows] == [
                ("Lead", "failed", "interrupted"),
                ("Stuck", "failed", "interrupted"),
                ("Left", "blocked", "interrupted"),
                ("Stuck", "cancelled", None),
                ("Stuck", "running", None),
            ]
            assert [row["id"] for row in rows if row["finished_at"] is None] == [alive]
            assert service.sql("select tool, status from tool_calls where status = 'started'") == []
            ends = service.sql(
                "select count(*) as n from events where type = 'execution.status' and payload ->> 'status' in"
                " ('failed', 'blocked', 'cancelled') group by execution_id"
            )
            assert [row["n"] for row in ends] == [1] * 4
            errors = service.sql("select type, recurrence_count from error_records order by recurrence_count")
            assert errors == [{"type": "interrupted", "recurrence_count": 1}] * 2

            told, before = await service.dispatcher.start_once(Order("Lead", "look", key="k"))
            assert before
            assert told.error == "the process that ran it ended before it did"
            assert told.result is not None
            assert (told.result.outcome, told.result.reason, told.result.output) == ("failed", "interrupted", "so far")
            assert told.result.errors[0].recommendation == "start it again"
            assert await service.dispatcher.settle_interrupted() == 0
