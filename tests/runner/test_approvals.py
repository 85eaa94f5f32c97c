"""Calls that a person must allow: they wait, at nobody's cost, and run once, with the arguments that were shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.clock import moment
from runner.dispatcher import Order
from runner.transcript import ToolCall
from tests.support.gated import CONFIG, DELETE, NO, YES, asked, decide, deleting
from tests.support.local_tools import LocalTools
from tests.support.models import Step, call, hang, malformed_call, say
from tests.support.reading import answer, dispatch, results, text_of
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
    assert "`local.delete` was not run: a person did not allow it: not on a Friday" in told(opened)
    assert opened.sql("select status, error_type from tool_calls") == [{"status": "failed", "error_type": "denied"}]
    assert opened.sql("select decision, used_at from approvals") == [{"decision": "denied", "used_at": None}]


async def test_a_question_nobody_answers_in_time_expires_and_no_answer_counts_after_that(tmp_path: Path) -> None:
    config = CONFIG.replace("timeout: 60s", "timeout: 60s, approval_timeout: 100ms")
    async with gated(tmp_path, [DELETE, say("nobody was there")], config) as (opened, tools):
        started = await opened.dispatcher.start(Order("Worker", "clean up"))
        [question] = await asked(opened)
        done = await opened.dispatcher.wait(started.id)
        late = await decide(opened, question)

    assert done.status == "completed"
    assert tools.calls == []
    assert "nobody allowed it in time" in told(opened)
    assert not late
    assert opened.sql("select status, error_type from tool_calls") == [
        {"status": "failed", "error_type": "approval_expired"}
    ]
    assert [row["type"] for row in opened.sql("select type from events where type like 'approval.%' order by seq")] == [
        "approval.requested",
        "approval.expired",
    ]


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
        open_now = await opened.dispatcher.services.approvals.open()

    assert done.status == "cancelled"
    assert not late
    assert open_now == []
    assert tools.calls == []
    assert opened.statuses() == {"Lead": ["cancelled"], "Worker": ["cancelled"]}
    [waited] = opened.sql("select status from tool_calls where tool = 'local.delete'")
    assert waited == {"status": "cancelled"}


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
    def wait(request: Any) -> Any:
        return call("get_result", execution_id=answer(request)["execution_id"], wait_seconds=0)

    lead: list[Step] = [dispatch("Worker"), lambda request: wait(request), say("I wait"), say("done")]
    async with gated(tmp_path, [DELETE, say("gone")], Lead=lead) as (opened, _):
        gate = anyio.Event()
        opened.model.scripts["Lead"] = [lead[0], replace_gate(gate, wait), *lead[2:]]
        started = await opened.dispatcher.start(Order("Lead", "clean up"))
        [question] = await asked(opened)
        gate.set()
        request = await opened.model.started("Lead", 3)
        await decide(opened, question)
        await opened.dispatcher.wait(started.id)

    seen = answer(request)
    assert seen["waiting_for"] == "approval"
    assert "you cannot" in seen["hint"]
    assert question.id not in str(seen)
    assert not any("approve" in tool.name for tool in request.tools)


def replace_gate(opened: anyio.Event, answering: Any) -> Step:
    """Answer only once the event is set."""

    async def later(request: Any) -> Any:
        await opened.wait()
        return answering(request)

    return later


async def test_a_question_put_before_a_restart_is_found_again_and_an_answer_given_meanwhile_counts(tmp_path: Path) -> None:
    async with gated(tmp_path, [DELETE, hang()]) as (opened, tools):
        await opened.dispatcher.start(Order("Worker", "clean up"))
        [question] = await asked(opened)
        [execution] = opened.dispatcher.tree
        assert execution.work is not None
        assert execution.work.toolbox is not None
        [held] = opened.sql("select id, call_id from tool_calls")
        again = ToolCall(held["call_id"], "delete", {"what": "everything"}, row=held["id"])
        other = replace(again, arguments={"what": "something else"})
        tool = execution.work.toolbox.tools.tool("delete")
        assert tool is not None
        allow = execution.work.permission.allow
        async with anyio.create_task_group() as group:  # as the next process would, while nobody else waits
            with anyio.CancelScope() as first:
                group.start_soon(allow, again, tool)
                [same] = await asked(opened)
                await decide(opened, question)
                first.cancel()
        await opened.model.started("Worker", 2)
        used = [await allow(again, tool, "repeat") if False else None]

    assert same == question
    assert other.arguments != again.arguments
    assert used == [None]
    assert len(opened.sql("select id from approvals")) == 1
    assert len(tools.calls) == 1
