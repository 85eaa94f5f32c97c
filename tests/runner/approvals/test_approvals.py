"""Calls that a person must allow: they wait, at nobody's cost, and run once, with the arguments that were shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest

from db.clock import moment, stamp
from db.store.engine import sqlite_library
from runner.approvals.approvals import ApprovalAnswer
from runner.llm.protocol import Request
from runner.service.order import Order
from runner.snapshot import Question
from tests.support.gated import CONFIG, DELETE, NO, YES, asked, decide, deleting
from tests.support.local_tools import LocalTools
from tests.support.models import Step, Turn, call, gate, hang, malformed_call, say
from tests.support.reading import answer, delivered, dispatch, results, text_of
from tests.support.service import Bench, bench


@asynccontextmanager
async def gated(
    folder: Path, worker: list[Step], config: str = CONFIG, **more: list[Step]
) -> AsyncIterator[tuple[Bench, LocalTools]]:
    """A service whose worker may delete, if somebody allows it."""
    tools = deleting()
    async with bench(folder, config, {"Worker": worker, **more}, tools.for_agents("Worker")) as opened:
        with anyio.fail_after(20):
            yield opened, tools


def told(opened: Bench, index: int = 0) -> str:
    """What the worker's model was told of a call."""
    return text_of(results(opened.model.of("Worker")[1])[index])


async def test_a_call_that_must_be_allowed_waits_for_a_person_and_then_runs_once(tmp_path: Path) -> None:
    async with gated(tmp_path, [DELETE, say("it is gone")]) as (opened, tools):
        started = await opened.dispatcher.start(Order("Worker", "clean up"))
        [question] = await asked(opened)
        waiting = opened.sql("select status, waiting_for from executions")
        held = opened.sql("select status from tool_calls")
        ran_before = list(tools.calls)
        decided = [await decide(opened, question), await decide(opened, question), await decide(opened, question, NO)]
        done = await opened.dispatcher.wait(started.id)

    assert (question.tool, question.arguments, question.agent) == ("local.delete", {"what": "everything"}, "Worker")
    assert waiting == [{"status": "running", "waiting_for": "approval"}]
    assert held == [{"status": "waiting"}]
    assert ran_before == []
    assert decided == [True, False, False]
    assert done.result is not None
    assert done.result.text == "it is gone"
    assert len(tools.calls) == 1
    assert told(opened) == "deleted everything"
    [row] = opened.sql("select * from approvals")
    assert (row["decision"], row["decided_by"], row["kind"]) == ("approved", "Ada", "gate")
    assert row["used_at"] is not None
    assert opened.sql("select waiting_for from executions") == [{"waiting_for": None}]
    events = [each["type"] for each in opened.sql("select type from events where type like 'approval.%' order by seq")]
    assert events == ["approval.requested", "approval.decided"]


async def test_a_denied_call_is_never_run_and_its_model_learns_why(tmp_path: Path) -> None:
    async with gated(tmp_path, [DELETE, say("I could not")]) as (opened, tools):
        started = await opened.dispatcher.start(Order("Worker", "clean up"))
        [question] = await asked(opened)
        await decide(opened, question, NO)
        done = await opened.dispatcher.wait(started.id)

    assert done.status == "completed"
    assert tools.calls == []
    assert "`local.delete` was not run: a person denied it: not on a Friday" in told(opened)
    assert opened.sql("select status, error_type from tool_calls") == [{"status": "failed", "error_type": "denied"}]
    assert opened.sql("select decision, used_at from approvals") == [{"decision": "denied", "used_at": None}]


async def test_a_question_without_an_answer_in_time_expires_and_no_later_answer_counts(tmp_path: Path) -> None:
    config = CONFIG.replace("timeout: 60s", "timeout: 60s, approval_timeout: 100ms")
    async with gated(tmp_path, [DELETE, say("nobody was there")], config) as (opened, tools):
        done = await opened.run("Worker", "clean up")
        late = await decide(opened, once_asked(opened))

    assert done.status == "completed"
    assert tools.calls == []
    assert "no approval in time" in told(opened)
    assert not late
    assert opened.sql("select status, error_type from tool_calls") == [
        {"status": "failed", "error_type": "approval_expired"}
    ]
    assert [row["type"] for row in opened.sql("select type from events where type like 'approval.%' order by seq")] == [
        "approval.requested",
        "approval.expired",
    ]


def once_asked(opened: Bench) -> Question:
    """The one question there was."""
    [row] = opened.sql(
        "select approvals.*, agent, parent_execution_id, session_id, server, arguments from approvals "
        "join executions e on e.id = approvals.execution_id join tool_calls t on t.id = approvals.tool_call_id"
    )
    return Question.of_row(row)


async def test_the_clocks_of_who_waits_and_of_its_callers_stand_still_and_those_of_others_run_on(tmp_path: Path) -> None:
    config = CONFIG.replace("timeout: 60s", "timeout: 1s, agent_timeout: 1s, wrap_up_reserve: 0s")
    lead: list[Step] = [dispatch("Worker") + dispatch("Idler"), say("I wait"), say("on"), say("done")]
    async with gated(tmp_path, [DELETE, say("gone")], config, Lead=lead, Idler=[hang(), say("late")]) as (opened, _):
        started = await opened.dispatcher.start(Order("Lead", "clean up"))
        [question] = await asked(opened)
        before = opened.sql("select agent, deadline_at from executions order by agent")
        began = anyio.current_time()
        idler = next(each for each in opened.dispatcher.tree if each.name == "Idler")
        await idler.done.wait()
        with anyio.move_on_after(2 - (anyio.current_time() - began)):  # longer than Lead and Worker have altogether
            await anyio.sleep_forever()
        remaining = [each.allowance.seconds_left for each in opened.dispatcher.tree]
        await decide(opened, question)
        done = await opened.dispatcher.wait(started.id)

    assert done.status == "completed"
    assert done.result is not None
    assert done.result.outcome == "completed"
    assert opened.statuses() == {"Lead": ["completed"], "Worker": ["completed"], "Idler": ["timed_out"]}
    assert all(0 < seconds < 1 for seconds in remaining)
    after = {row["agent"]: row["deadline_at"] for row in opened.sql("select agent, deadline_at from executions")}
    moved = {row["agent"]: (moment(after[row["agent"]]) - moment(row["deadline_at"])).total_seconds() for row in before}
    assert moved["Idler"] == 0
    assert moved["Worker"] == pytest.approx(2, abs=0.5)
    assert moved["Lead"] == pytest.approx(2, abs=0.5)


async def test_a_waiting_call_is_cancelled_at_once_and_cannot_be_allowed_any_more(tmp_path: Path) -> None:
    lead: list[Step] = [dispatch("Worker"), say("I wait")]
    async with gated(tmp_path, [DELETE], Lead=lead) as (opened, tools):
        started = await opened.dispatcher.start(Order("Lead", "clean up"))
        [question] = await asked(opened)
        await opened.dispatcher.cancel(started.id, by="Ada", reason="enough")
        late = await decide(opened, question)
        done = await opened.dispatcher.wait(started.id)
        open_now = await opened.dispatcher.approvals.open()

    assert done.status == "cancelled"
    assert not late
    assert open_now == []
    assert tools.calls == []
    assert opened.statuses() == {"Lead": ["cancelled"], "Worker": ["cancelled"]}
    [waited] = opened.sql("select status, error_type from tool_calls where tool = 'local.delete'")
    assert waited == {"status": "failed", "error_type": "cancelled"}  # certainly not carried out
    assert opened.sql("select decision from approvals") == [{"decision": "withdrawn"}]


async def test_a_wish_to_conclude_ends_the_wait(tmp_path: Path) -> None:
    async with gated(tmp_path, [DELETE, say("nothing was deleted")]) as (opened, tools):
        started = await opened.dispatcher.start(Order("Worker", "clean up"))
        [question] = await asked(opened)
        await opened.dispatcher.ask_to_wrap_up(started.id)
        done = await opened.dispatcher.wait(started.id)
        late = await decide(opened, question)

    assert done.result is not None
    assert (done.status, done.result.text) == ("completed", "nothing was deleted")
    assert tools.calls == []
    assert not late
    assert opened.sql("select decision from approvals") == [{"decision": "withdrawn"}]


async def test_the_other_calls_of_a_turn_run_meanwhile_and_each_gets_its_own_word(tmp_path: Path) -> None:
    looked = anyio.Event()

    async def look(_: Mapping[str, Any]) -> str:
        looked.set()
        return "looked"

    free, tools = LocalTools({"look": look}), deleting()
    turn = call("look") + call("delete", what="one") + call("delete", what="two") + malformed_call("delete", "[1")
    layers = [*free.for_agents("Worker"), *tools.for_agents("Worker")]
    async with bench(tmp_path, CONFIG, {"Worker": [turn, say("done")]}, layers) as opened:
        started = await opened.dispatcher.start(Order("Worker", "clean up"))
        questions = await asked(opened, 2)
        with anyio.fail_after(5):
            await looked.wait()
        one, two = sorted(questions, key=lambda each: each.arguments["what"])
        await decide(opened, two, NO)
        still = opened.sql("select waiting_for from executions")
        await decide(opened, one)
        await opened.dispatcher.wait(started.id)

        assert still == [{"waiting_for": "approval"}]
        assert [each.arguments for each in tools.calls] == [{"what": "one"}]
        assert told(opened, 1) == "deleted one"
        assert "was not run" in told(opened, 2)
        assert "not a JSON object" in told(opened, 3)


async def test_a_caller_sees_that_a_person_is_waited_for_and_cannot_be_that_person(tmp_path: Path) -> None:
    opened_gate = anyio.Event()

    async def look(request: Request) -> Turn:
        await opened_gate.wait()
        return call("get_result", execution_id=answer(request)["execution_id"], wait_seconds=0)

    lead: list[Step] = [dispatch("Worker"), look, say("I wait"), say("done")]
    async with gated(tmp_path, [DELETE, say("gone")], Lead=lead) as (opened, _):
        started = await opened.dispatcher.start(Order("Lead", "clean up"))
        [question] = await asked(opened)
        opened_gate.set()
        request = await opened.model.started("Lead", 3)
        await decide(opened, question)
        await opened.dispatcher.wait(started.id)

    seen = answer(request)
    assert seen["waiting_for"] == "approval"
    assert "you cannot" in seen["hint"]
    assert question.id not in str(seen)
    assert not any("approve" in tool.name for tool in request.tools)


@pytest.mark.parametrize(("wish", "left"), [("keep", None), ("finish", None), ("cancel", "withdrawn")])
async def test_a_service_that_stops_does_not_wait_for_a_person_and_only_a_cancel_ends_the_question(
    tmp_path: Path, wish: Literal["keep", "finish", "cancel"], left: str | None
) -> None:
    lead: list[Step] = [dispatch("Worker") + dispatch("Idler"), say("I wait"), say("done")]
    under_way = anyio.Event()
    idler: list[Step] = [gate(under_way, say("idled"))]
    async with gated(tmp_path, [DELETE], Lead=lead, Idler=idler) as (opened, _):
        await opened.dispatcher.start(Order("Lead", "clean up"))
        await asked(opened)
        await opened.model.started("Idler")
        async with anyio.create_task_group() as group:
            group.start_soon(opened.dispatcher.drain, 60, wish, "its client went away")
            under_way.set()

    assert opened.sql("select decision from approvals") == [{"decision": left}]
    assert wish != "finish" or opened.statuses()["Idler"] == ["completed"]


# -- after a restart ---------------------------------------------------------------------------------------------------


async def stopped_while_it_asks(folder: Path, config: str = CONFIG) -> tuple[str, Question]:
    """An execution below a caller whose process goes while it waits for a person."""
    lead: list[Step] = [dispatch("Worker") + dispatch("Idler"), say("I wait")]
    async with gated(folder, [DELETE], config, Lead=lead, Idler=[hang()]) as (opened, _):
        started = await opened.dispatcher.start(Order("Lead", "clean up"))
        [question] = await asked(opened)
        await opened.model.started("Idler")
        await opened.model.started("Lead", 2)
    return started.id, question


@asynccontextmanager
async def after_a_restart(folder: Path, worker: str, config: str = CONFIG) -> AsyncIterator[tuple[Bench, LocalTools]]:
    """The next service, before it goes on with anything."""

    def lead(request: Request) -> Turn:
        return say("done" if len(delivered(request)) == 2 else "I wait")

    async with gated(folder, [say(worker)], config, Lead=[lead, lead, lead], Idler=[say("idled")]) as opened:
        yield opened


async def test_a_question_outlives_the_process_that_put_it(tmp_path: Path) -> None:
    root, question = await stopped_while_it_asks(tmp_path)
    async with after_a_restart(tmp_path, "it is gone") as (opened, tools):
        [left] = await asked(opened)
        await opened.dispatcher.adopt()
        while not any(each.allowance.stands for each in opened.dispatcher.tree):
            await anyio.lowlevel.checkpoint()
        [again] = await asked(opened)
        ran_before = list(tools.calls)
        await decide(opened, again)
        done = await opened.dispatcher.wait(root)

    assert left == question == again
    assert ran_before == []
    assert done.status == "completed"
    assert [each.arguments for each in tools.calls] == [{"what": "everything"}]
    assert len(opened.sql("select id from approvals")) == 1


@pytest.mark.parametrize("word", [YES, NO])
async def test_an_answer_counts_that_was_given_while_no_process_ran_the_execution(
    tmp_path: Path, word: ApprovalAnswer
) -> None:
    root, question = await stopped_while_it_asks(tmp_path)
    async with after_a_restart(tmp_path, "understood") as (opened, tools):
        assert await decide(opened, question, word)
        await opened.dispatcher.adopt()
        done = await opened.dispatcher.wait(root)

    assert done.status == "completed"
    assert opened.statuses() == {"Lead": ["completed"], "Worker": ["completed"], "Idler": ["completed"]}
    assert len(tools.calls) == int(word.approved)
    assert len(opened.sql("select id from approvals")) == 1


async def test_neither_a_late_answer_nor_what_others_did_meanwhile_costs_time_after_a_restart(tmp_path: Path) -> None:
    root, question = await stopped_while_it_asks(tmp_path)
    async with after_a_restart(tmp_path, "it is gone") as (opened, _):
        assert await decide(opened, question)
        later(opened, "events", "at", 100, "type = 'approval.decided'")  # more than anybody here has
        await opened.dispatcher.adopt()
        done = await opened.dispatcher.wait(root)
    outcomes = opened.sql("select outcome from executions")

    (tmp_path / "busy").mkdir()
    root, question = await stopped_while_it_asks(tmp_path / "busy")
    async with after_a_restart(tmp_path / "busy", "it is gone") as (opened, _):
        later(opened, "events", "at", 100)  # somebody else was at work for so long
        await opened.dispatcher.adopt()
        [same] = await asked(opened)
        await decide(opened, same)
        waited = await opened.dispatcher.wait(root)
    worker = opened.sql("select outcome from executions where agent <> 'Idler'")

    assert (done.status, waited.status) == ("completed", "completed")
    assert [row["outcome"] for row in outcomes + worker] == ["completed"] * 5


async def test_restarts_while_a_person_is_waited_for_give_no_time_away(tmp_path: Path) -> None:
    root, _ = await stopped_while_it_asks(tmp_path)
    async with after_a_restart(tmp_path, "unheard") as (opened, _):
        times = [
            ("events", "at"),
            ("approvals", "requested_at"),
            ("executions", "started_at"),
            ("executions", "deadline_at"),
        ]
        for table, column in times:
            for row in opened.sql(f"select distinct {column} as at from {table}"):
                later(opened, table, column, -1_000, f"{column} = '{row['at']}'")  # all this was long ago
        await opened.dispatcher.adopt()
        while not any(each.allowance.stands for each in opened.dispatcher.tree):
            await anyio.lowlevel.checkpoint()

    async with after_a_restart(tmp_path, "it is gone") as (opened, _):
        await opened.dispatcher.adopt()
        while not any(each.allowance.stands for each in opened.dispatcher.tree):
            await anyio.lowlevel.checkpoint()
        left = {each.name: each.allowance.seconds_left for each in opened.dispatcher.tree}
        [question] = await asked(opened)
        await decide(opened, question)
        assert (await opened.dispatcher.wait(root)).status == "completed"

    assert max(left["Lead"], left["Worker"]) <= 60, left


def later(opened: Bench, table: str, column: str, seconds: float, where: str = "true") -> None:
    """Let the newest of some rows be younger."""
    with closing(sqlite_library().connect(opened.database)) as connection, connection:
        [[newest]] = connection.execute(f"select max({column}) from {table} where {where}")
        moved = stamp(moment(newest) + timedelta(seconds=seconds))
        connection.execute(f"update {table} set {column} = ? where {column} = ?", (moved, newest))


async def test_a_question_that_expired_while_no_process_ran_its_execution_is_asked_again(tmp_path: Path) -> None:
    root, question = await stopped_while_it_asks(tmp_path)
    async with after_a_restart(tmp_path, "it is gone") as (opened, tools):
        later(opened, "approvals", "expires_at", -4000)
        await opened.dispatcher.adopt()
        [again] = await asked(opened)
        late = await decide(opened, question)
        await decide(opened, again)
        await opened.dispatcher.wait(root)

    assert again.id != question.id
    assert not late
    assert len(tools.calls) == 1
    decisions = opened.sql("select decision from approvals order by id")
    assert [row["decision"] for row in decisions] == ["expired", "approved"]


async def test_a_call_that_waited_when_its_process_went_and_is_cancelled_then_certainly_did_nothing(tmp_path: Path) -> None:
    root, question = await stopped_while_it_asks(tmp_path)
    async with after_a_restart(tmp_path, "never") as (opened, tools):
        await opened.dispatcher.cancel(root, by="Ada", reason="enough")
        late = await decide(opened, question)

    assert not late
    assert tools.calls == []
    [waited] = opened.sql("select status, error_type from tool_calls where tool = 'local.delete'")
    assert waited == {"status": "failed", "error_type": "cancelled"}


@pytest.mark.parametrize("word", [YES, NO])
async def test_a_person_decides_whether_a_call_that_a_crash_cut_runs_again(tmp_path: Path, word: ApprovalAnswer) -> None:
    running = anyio.Event()

    async def delete(_: Mapping[str, Any]) -> str:
        running.set()
        await anyio.sleep_forever()
        return "never"

    tools = LocalTools({"delete": delete}, effect="ask")
    async with bench(tmp_path, CONFIG, {"Worker": [DELETE]}, tools.for_agents("Worker")) as opened:
        started = await opened.dispatcher.start(Order("Worker", "clean up"))
        with anyio.fail_after(10):
            await running.wait()

    async with gated(tmp_path, [say("understood")]) as (opened, again):
        await opened.dispatcher.adopt()
        [question] = await asked(opened)
        held = opened.sql("select status from tool_calls")
        await decide(opened, question, word)
        done = await opened.dispatcher.wait(started.id)

    assert question.kind == "repeat"
    assert held == [{"status": "waiting"}]
    assert done.status == "completed"
    assert len(again.calls) == int(word.approved)
    [call_row] = opened.sql("select status, result from tool_calls")
    assert call_row["status"] == ("completed" if word.approved else "unknown")
    assert word.approved or "whether it took effect is unknown" in call_row["result"]
