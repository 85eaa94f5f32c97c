"""Asking for results: `get_result` and `wait_for` say what is, wait as long as they were told, and hand over once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.clock import moment
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.support.gated import DELETE, NO, asked, decide
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, fail, gate, hang, malformed_call, say
from tests.support.reading import answer, delivered, dispatch, dispatched, results, shown
from tests.support.requirement import requirement
from tests.support.service import bench

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
"""


def ask(index: int = 0, **more: Any) -> Any:
    """Ask for the result of the agent dispatched as number `index`."""
    return lambda request: call("get_result", execution_id=dispatched(request)[index], **more)


@requirement("S2-GT-1")
async def test_a_running_child_is_described_and_is_no_error(tmp_path: Path) -> None:
    opened, begun = anyio.Event(), anyio.Event()
    scripts = {
        "Lead": [dispatch("Left"), gate(begun, call("nothing")), ask(wait_seconds=0), say("waiting"), say("done")],
        "Left": [call("nothing"), gate(opened, say("left"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            begun.set()
            asked = await service.model.started("Lead", 4)
            opened.set()
            await service.dispatcher.wait(started.id)

        told = answer(asked)
        assert "is_error" not in results(asked)[0]
        assert (told["status"], told.get("result"), told["agent"]) == ("running", None, "Left")
        assert told["progress"]["elapsed_seconds"] >= 0
        assert 0 < told["progress"]["remaining_seconds"] <= 300
        assert told["progress"]["activity"]
        assert "tool_calls" in told["usage"]
        assert told["retry_after_seconds"] > 0


@requirement("S2-GT-2", "S2-GT-7")
async def test_a_wait_ends_as_soon_as_the_child_ends_with_its_whole_text(tmp_path: Path) -> None:
    opened = anyio.Event()
    text = "first paragraph\n\n" + "and more " * 200
    scripts = {"Lead": [dispatch("Left"), ask(wait_seconds=50), say("done")], "Left": [gate(opened, say(text))]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            await service.model.started("Lead", 2)
            opened.set()
            await service.dispatcher.wait(started.id)

        told = answer(service.model.of("Lead")[2])
        stored = service.sql("select json_extract(result, '$.output') as text from executions where agent = 'Left'")
        assert (told["status"], told["result"]["output"]) == ("completed", text.strip())
        assert stored == [{"text": text.strip()}]


@requirement("S2-GT-7", "S2-GR-13")
async def test_a_wait_that_runs_out_answers_running_whatever_the_tool_timeout(tmp_path: Path) -> None:
    opened = anyio.Event()
    config = CONFIG + "defaults: {limits: {tool_timeout: 50ms}}\n"
    scripts = {
        "Lead": [dispatch("Left"), ask(wait_seconds=0.15), say("waiting"), say("done")],
        "Left": [gate(opened, say("left"))],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            asked = await service.model.started("Lead", 3)
            opened.set()
            await service.dispatcher.wait(started.id)

        assert answer(asked)["status"] == "running"
        row = service.sql("select started_at, finished_at from tool_calls where tool = 'get_result'")[0]
        assert (moment(row["finished_at"]) - moment(row["started_at"])).total_seconds() >= 0.1


@requirement("S2-GT-7")
async def test_a_wait_never_goes_beyond_the_callers_own_time(tmp_path: Path) -> None:
    config = CONFIG + "defaults: {limits: {timeout: 1400ms, wrap_up_reserve: 1s}}\n"
    scripts = {"Lead": [dispatch("Left"), ask(wait_seconds=50), say("what there is")], "Left": [hang(), hang()]}
    async with bench(tmp_path, config, scripts) as service:
        with anyio.fail_after(3):
            ended = await service.run("Lead")

        assert ended.status == "completed"
        assert ended.elapsed < 1.4


@requirement("S2-GT-3", "S2-LE-11")
@pytest.mark.parametrize("end", ["failed", "timed_out", "cancelled"])
async def test_a_child_without_success_is_told_with_its_reason_and_what_it_found(tmp_path: Path, end: str) -> None:
    config = CONFIG.replace("looks left", "looks left, limits: {timeout: 200ms, wrap_up_reserve: 0s}")
    last: Turn = fail() if end == "failed" else hang()
    scripts = {
        "Lead": [dispatch("Left"), ask(wait_seconds=20), say("done")],
        "Left": [say("found so far") + call("nothing"), last],
    }
    async with bench(tmp_path, config if end == "timed_out" else CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            child = await service.model.started("Left", 2)
            if end == "cancelled":
                await service.dispatcher.cancel(child.execution_id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)

        told = answer(service.model.of("Lead")[2])
        assert (told["status"], told["result"]["output"]) == (end, "found so far")
        assert told["reason"]
        assert bool(told.get("error")) == (end != "cancelled")


@requirement("S2-GT-4", "S2-GT-5", "S2-CN-3")
async def test_ids_of_others_do_not_exist_for_a_caller(tmp_path: Path) -> None:
    foreign: list[str] = []
    ready = anyio.Event()

    async def steal(_: Request) -> Turn:
        await ready.wait()
        stolen, unknown = foreign[0], "0" * 37
        return (
            call("get_result", execution_id=stolen, wait_seconds=0)
            + call("get_result", execution_id=unknown, wait_seconds=0)
            + call("cancel_agent", execution_id=stolen)
            + call("cancel_agent", execution_id=unknown)
            + call("wait_for", execution_ids=[stolen])
        )

    def show(request: Request) -> Turn:
        foreign.extend(dispatched(request))
        ready.set()
        return hang()

    config = CONFIG + "  Thief: {sub_agents: [Right]}\n"
    scripts = {"Lead": [dispatch("Left"), show], "Left": [hang()], "Thief": [steal, say("nothing to be had")]}
    async with bench(tmp_path, config, scripts) as service:
        owner = await service.dispatcher.start(Order("Lead"))
        await service.run("Thief")

        blocks = results(service.model.of("Thief")[1])
        assert len({block["content"].replace(foreign[0], "ID").replace("0" * 37, "ID") for block in blocks}) == 1
        assert all(block["is_error"] for block in blocks)
        kinds = service.sql("select distinct error_type from tool_calls where tool != 'dispatch_agent'")
        assert kinds == [{"error_type": "not_found"}]
        assert service.statuses()["Left"] == ["running"]
        await service.dispatcher.cancel(owner.id, by="the test", reason="over")


@requirement("S2-GT-8")
async def test_waiting_for_any_and_for_all(tmp_path: Path) -> None:
    first, second = anyio.Event(), anyio.Event()

    def wait_for(mode: str) -> Any:
        return lambda request: call("wait_for", execution_ids=dispatched(request), mode=mode, wait_seconds=20)

    config = CONFIG + "  Third: {description: also}\n"
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), wait_for("any"), wait_for("all"), say("done")],
        "Left": [gate(first, say("left"))],
        "Right": [gate(second, say("right"))],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 2)
            second.set()
            third = await service.model.started("Lead", 3)
            assert [each["status"] for each in answer(third)["executions"]] == ["running", "completed"]
            assert (answer(third)["ended"], answer(third)["open"]) == (1, 1)
            first.set()
            await service.dispatcher.wait(started.id)

        fourth = service.model.of("Lead")[3]
        assert [each["status"] for each in answer(fourth)["executions"]] == ["completed", "completed"]
        assert delivered(fourth) == []


@requirement("S2-GT-9", "S2-RN-14")
async def test_a_result_that_was_read_is_not_pushed_again_and_reads_the_same_again(tmp_path: Path) -> None:
    twice = [ask(wait_seconds=20), ask(wait_seconds=0)]
    scripts = {"Lead": [dispatch("Left"), *twice, call("list_agents"), say("done")], "Left": [say("left")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        requests = service.model.of("Lead")
        assert answer(requests[2]) == answer(requests[3])
        assert delivered(requests[-1]) == []
        read = service.sql("select tool from deliveries join tool_calls on tool_calls.id = consumed_by")
        assert read == [{"tool": "get_result"}]


@requirement("S2-GT-9")
async def test_two_reads_at_once_and_a_slow_end_still_hand_a_result_over_once(tmp_path: Path) -> None:
    opened, closing, closed = anyio.Event(), anyio.Event(), anyio.Event()

    class SlowToClose(LocalTools):
        async def close(self) -> None:
            closing.set()
            await closed.wait()

    async def look(request: Request) -> Turn:
        opened.set()
        await closing.wait()  # the end of the child is stored, its connections are still being closed
        once = call("get_result", execution_id=dispatched(request)[0], wait_seconds=0)
        return once + once

    def conclude(_: Request) -> Turn:
        closed.set()
        return say("done")

    scripts = {"Lead": [dispatch("Left"), look, conclude, conclude], "Left": [gate(opened, say("left"))]}
    async with bench(tmp_path, CONFIG, scripts, SlowToClose({}).for_agents("Left")) as service:
        with anyio.fail_after(5):
            await service.run("Lead")

        last = service.model.of("Lead")[-1]
        handed_over = [block for block in results(last) if '"completed"' in block["content"]]
        assert (len(handed_over), len(delivered(last))) == (2, 0)
        assert len(service.sql("select id from deliveries where consumed_at is not null")) == 1


@requirement("S2-GT-10")
async def test_an_answer_names_others_that_ended_and_were_not_read(tmp_path: Path) -> None:
    async def both_ended(request: Request) -> Turn:
        await done.wait()
        return ask(0, wait_seconds=20)(request)  # type: ignore[no-any-return]

    done = anyio.Event()
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), both_ended, say("done"), say("done")],
        "Left": [say("left")],
        "Right": [say("right")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        with anyio.fail_after(5):
            async with service.dispatcher.services.bus.watch() as events:
                started = await service.dispatcher.start(Order("Lead"))
                ended = 0
                while ended < 2:
                    event = await events.receive()
                    ended += event["type"] == "delivery.created"
            done.set()
            await service.dispatcher.wait(started.id)

        asked = service.model.of("Lead")[2]
        assert answer(asked)["also_ended"] == [dispatched(asked)[1]]
        assert [each.text for each in delivered(asked)] == ["right"]


async def _look(arguments: Mapping[str, Any]) -> str:
    return "seen"


@requirement("S2-LE-18")
async def test_a_result_says_how_many_tool_calls_it_rests_on(tmp_path: Path) -> None:
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), ask(wait_seconds=20), say("waiting"), say("done")],
        "Left": [call("look") + call("look"), say("left")],
        "Right": [say("out of my head")],
    }
    async with bench(tmp_path, CONFIG, scripts, LocalTools({"look": _look}).for_agents("Left")) as service:
        await service.run("Lead")

        requests = service.model.of("Lead")
        assert answer(requests[2])["usage"]["tool_calls"] == 2
        assert [each.tool_calls for each in delivered(requests[-1])] == [0]
        assert 'tool_calls="0"' in shown(requests[-1])
        rows = service.sql("select agent, tool_call_count from executions where depth = 1 order by agent")
        assert [row["tool_call_count"] for row in rows] == [2, 0]


@requirement("S2-LE-18")
async def test_only_tool_calls_that_ran_are_counted_not_reports_refused_or_unknown_ones(tmp_path: Path) -> None:
    looking, deleting = LocalTools({"look": _look}), LocalTools({"delete": _look}, gate="ask")
    never_ran = call("no_such_tool") + call("read_result", execution_id=7) + malformed_call("look", "[1, 2")
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Nobody"), ask(wait_seconds=20), say("done")],
        "Left": [call("look") + never_ran + DELETE, call("finish", status="partial", summary="half of it")],
    }
    layers = [*looking.for_agents("Left"), *deleting.for_agents("Left")]
    async with bench(tmp_path, CONFIG, scripts, layers) as service:
        started = await service.dispatcher.start(Order("Lead", "go"))
        with anyio.fail_after(20):
            [question] = await asked(service)
            await decide(service, question, NO)
            lead = await service.dispatcher.wait(started.id)

        counted = answer(service.model.of("Lead")[2])["usage"]["tool_calls"]
        rows = service.sql(
            "select agent, tool_call_count, json_extract(result, '$.metadata.tool_calls') as told from executions"
        )
        calls = service.sql("select tool, status from tool_calls order by execution_id, started_at, position")

    assert (len(looking.calls), len(deleting.calls)) == (1, 0)
    assert counted == 1
    assert lead.usage["tool_calls"] == 2  # it dispatched one agent, and asked for its result
    assert {row["agent"]: (row["tool_call_count"], row["told"]) for row in rows} == {"Lead": (2, 2), "Left": (1, 1)}
    assert len(calls) == 9  # each has its row, also those that do not count
