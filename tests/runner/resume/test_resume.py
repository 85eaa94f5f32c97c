"""What a process left open goes on in another: nothing that was acknowledged is lost, asked for or done twice."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.store.engine import sqlite_library
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.resume.resuming import CONFIG, after_a_stop, tree, with_all
from tests.support.local_tools import LocalTools
from tests.support.models import Script, Turn, call, gate, hang, say
from tests.support.reading import delivered, dispatch, results, shown, text_of
from tests.support.requirement import requirement
from tests.support.service import Bench, bench


async def test_a_committed_reply_is_not_asked_for_again_and_the_call_in_flight_is_recorded_as_lost(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Lead": [say("looking") + call("list_agents"), hang()]}) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        await service.model.started("Lead", 2)

    async with after_a_stop(tmp_path, {"Lead": [say("found")]}) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert (end.status, end.result.text) == ("completed", "found")
        assert [message.kind for message in service.model.requests[0].messages] == ["task", "reply", "results"]
        assert len(service.model.requests) == 1
        calls = service.sql("select turn, stop_reason, pricing from model_calls order by finished_at")
        assert [(row["turn"], row["stop_reason"]) for row in calls] == [(1, "tool_use"), (2, "lost"), (2, "end_turn")]
        assert service.sql("select turns, attempt from executions") == [{"turns": 2, "attempt": 2}]
        assert service.sql("select count(*) as n from messages where kind = 'reply'") == [{"n": 2}]


async def test_a_lost_call_is_not_taken_for_the_reply_that_came_after_it(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Leaf": lambda _: hang()}) as service:
        started = await service.dispatcher.start(Order("Leaf", "act"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")

    async with after_a_stop(tmp_path, {"Leaf": [say("half an ans", stop_reason="max_tokens"), hang()]}) as service:
        with anyio.fail_after(10):
            await service.model.started("Leaf", 2)

    async with after_a_stop(tmp_path, {"Leaf": [say("wer")]}) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert end.result.text == "half an answer"
        turns = service.sql("select turn, stop_reason from model_calls order by started_at, finished_at")
        assert [(row["turn"], row["stop_reason"]) for row in turns] == [
            (1, "lost"), (1, "max_tokens"), (2, "lost"), (2, "end_turn"),
        ]  # fmt: skip


@requirement("S2-LE-12")
async def test_a_tree_of_three_levels_goes_on_from_the_top_and_each_result_is_delivered_once(tmp_path: Path) -> None:
    lead = [dispatch("Middle") + dispatch("Leaf", "quick"), say("waiting"), say("never asked")]
    middle = [dispatch("Leaf", "slow"), say("waiting")]
    scripts: dict[str, Script] = {"Lead": lead, "Middle": middle, "Leaf": _leaf}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Middle", 2)
        await service.until(lambda: service.statuses()["Leaf"].count("completed"))

    async with after_a_stop(
        tmp_path,
        {
            "Lead": with_all(2, lambda _: say("all in")),
            "Middle": with_all(1, lambda request: say(f"middle has {delivered(request)[0].text}")),
            "Leaf": [say("slow found")],
        },
    ) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert end.result.text == "all in"
        assert tree(service) == [
            ("Lead", "completed", 2),
            ("Middle", "completed", 2),
            ("Leaf", "completed", 1),
            ("Leaf", "completed", 2),
        ]
        texts = sorted(each.text for each in delivered(service.model.of("Lead")[-1]))
        assert texts == ["middle has slow found", "quick found"]
        assert service.sql("select id from deliveries where consumed_at is null") == []


def _leaf(request: Any) -> Any:
    return say("quick found") if "quick" in shown(request) else hang()


@pytest.mark.parametrize(("effect", "status", "runs"), [("read_only", "completed", 2), ("at_most_once", "unknown", 1)])
async def test_a_call_cut_by_a_stop_is_settled_by_its_effect(tmp_path: Path, effect: str, status: str, runs: int) -> None:
    begun, never, counted = anyio.Event(), anyio.Event(), list[int]()

    async def first(_: object) -> str:
        counted.append(1)
        begun.set()
        await never.wait()
        return "never"

    async def second(_: object) -> str:
        counted.append(1)
        return "again"

    before, after = LocalTools({"act": first}, effect=effect), LocalTools({"act": second}, effect=effect)
    script = [say("I act") + call("act") + call("list_agents")]
    async with bench(tmp_path, CONFIG, {"Lead": script}, before.for_agents("Lead")) as service:
        started = await service.dispatcher.start(Order("Lead", "act"))
        with anyio.fail_after(10):
            await begun.wait()

    async with after_a_stop(tmp_path, {"Lead": [say("so")]}, after) as service:
        await service.ended(started.id)

        assert len(counted) == runs
        rows = service.sql("select tool, status, result from tool_calls order by position")
        assert [(row["tool"], row["status"]) for row in rows] == [("local.act", status), ("list_agents", "completed")]
        seen = [text_of(block) for block in results(service.model.requests[0])]
        assert ("again" if runs == 2 else "whether it took effect is unknown") in seen[0]
        assert '"agents"' in seen[1]


async def _acts(_: object) -> str:
    return "did"


async def test_a_model_reads_no_result_that_a_crash_could_still_take_back(tmp_path: Path) -> None:
    stored: list[list[str]] = []

    def reads(_: Request) -> Turn:
        stored.append([row["status"] for row in service.sql("select status from tool_calls")])
        return say("done")

    tools = LocalTools({"act": _acts})
    async with bench(tmp_path, CONFIG, {"Leaf": [call("act") + call("act"), reads]}, tools.for_agents("Leaf")) as service:
        await service.run("Leaf")

    assert stored == [["completed", "completed"]]


async def test_a_chain_goes_on_with_the_stage_it_was_in(tmp_path: Path) -> None:
    scripts = {"Leaf": [say("leaf")], "Middle": lambda _: hang()}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("line", "find it"))
        await service.until(lambda: service.statuses().get("Leaf") == ["completed"])

    later: dict[str, Script] = {
        "Middle": [say("middle")],
        "Synthesizer": [lambda request: say(f"merged {'leaf' in shown(request)} {'middle' in shown(request)}")],
        "Lead": lambda _: hang(),
    }
    async with after_a_stop(tmp_path, later) as service:
        with anyio.fail_after(10):
            request = await service.model.started("Lead")
        assert "merged True True" in shown(request)

    async with after_a_stop(tmp_path, {"Lead": [say("the end")]}) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert end.result.text == "the end"
        assert [(agent, attempt) for agent, _, attempt in tree(service)] == [
            ("line", 3), ("Leaf", 1), ("Middle", 2), ("Synthesizer", 1), ("Lead", 2),
        ]  # fmt: skip
        stages = service.sql("select stage, step_id from executions where parent_execution_id is not null order by id")
        assert [(row["stage"], row["step_id"]) for row in stages] == [
            ("one", "1"), ("one", "2"), ("one", "synthesis"), ("two", "1"),
        ]  # fmt: skip
        query = "select payload ->> 'action' as a from events where payload ->> 'number' is not null order by seq"
        told = service.sql(query)
        assert [row["a"] for row in told] == ["stage 1 of 2: one", "stage 2 of 2: two"], "each is told once"


async def test_a_chain_that_is_asked_to_conclude_keeps_what_a_later_stage_finds_after_a_stop(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Leaf": [say("leaf")], "Middle": [say("middle")], "Synthesizer": [say("both")]}
    async with bench(tmp_path, CONFIG, {**scripts, "Lead": [hang()]}) as service:
        chain = await service.dispatcher.start(Order("line", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Lead")
        await service.dispatcher.ask_to_wrap_up(chain.id)
        read = "select 1 from deliveries where execution_id = ? and kind = 'wrap_up' and consumed_at is not null"
        await service.until(lambda: service.sql(read, chain.id))

    async with after_a_stop(tmp_path, {"Lead": [say("the cause")]}) as service:
        end = await service.ended(chain.id)

        assert end.result is not None
        assert (end.status, end.result.text) == ("completed", "the cause")


async def test_agents_of_a_chain_hear_of_a_wish_to_conclude_that_it_read_just_before_a_stop(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"*": lambda _: hang()}) as service:
        chain = await service.dispatcher.start(Order("line", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")
            await service.model.started("Middle")
        await service.dispatcher.ask_to_wrap_up(chain.id)
        await service.until(lambda: service.sql("select 1 from deliveries where execution_id <> ?", chain.id))
    with closing(sqlite_library().connect(service.database)) as connection, connection:
        connection.execute("delete from deliveries where execution_id <> ?", (chain.id,))

    def concluding(request: Request) -> Turn:
        return hang() if request.tools else say(f"{request.agent} so far")

    async with after_a_stop(tmp_path, {"Leaf": concluding, "Middle": concluding, "Synthesizer": [say("both")]}) as service:
        end = await service.ended(chain.id)

        assert end.result is not None
        assert (end.result.reason, service.statuses()["Lead"]) == ("asked", ["skipped"])
        assert "both" in end.result.text


async def test_time_runs_on_but_not_while_no_process_ran_it(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Leaf": lambda _: hang()}) as service:
        started = await service.dispatcher.start(Order("Leaf", "look", timeout=60))
        with anyio.fail_after(10):
            await service.model.started("Leaf")
    before = (await _row(tmp_path, started.id))["deadline_at"]

    async with after_a_stop(tmp_path, {"Leaf": lambda _: hang()}) as service:
        with anyio.fail_after(10):
            await service.model.started("Leaf")
        live = service.dispatcher.tree.get(started.id)
        assert live is not None
        assert 50 < live.allowance.seconds_left <= 60
        assert service.sql("select deadline_at from executions")[0]["deadline_at"] > before


async def _row(folder: Path, execution: str) -> Mapping[str, Any]:
    async with bench(folder, CONFIG, {}) as service:
        row = await service.dispatcher.services.database.reads.execution(execution)
        assert row is not None
        return row


@requirement("S2-LE-12")
async def test_a_child_that_got_little_time_keeps_no_more_of_it_for_its_conclusion_after_a_stop(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Lead": [dispatch("Leaf"), say("w")], "Leaf": lambda _: hang()}) as service:
        started = await service.dispatcher.start(Order("Lead", "find it", timeout=20))
        with anyio.fail_after(10):
            await service.model.started("Leaf")
            await service.model.started("Lead", 2)

    lead = with_all(1, lambda request: say(str(delivered(request)[0].outcome)))
    async with after_a_stop(tmp_path, {"Lead": lead, "Leaf": [say("found")]}) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert end.result.text == "completed"


async def test_two_services_that_adopt_at_once_share_no_execution(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Leaf": lambda _: hang()}) as service:
        for _ in range(20):
            await service.dispatcher.start(Order("Leaf", "look"))
        with anyio.fail_after(10):
            await service.model.started("Leaf", 20)

    async with bench(tmp_path, CONFIG, {"Leaf": [say("a")]}) as one, bench(tmp_path, CONFIG, {"Leaf": [say("b")]}) as two:
        counts: list[int] = []

        async def adopt(service: Bench) -> None:
            counts.append(await service.dispatcher.adopt())

        async with anyio.create_task_group() as group:
            group.start_soon(adopt, one)
            group.start_soon(adopt, two)
        assert sum(counts) == 20
        for row in one.sql("select id from executions"):
            await one.ended(row["id"])
        assert one.sql("select count(*) as n, max(attempt) as attempt from executions where status = 'completed'") == [
            {"n": 20, "attempt": 2}
        ]
        assert len(one.model.requests) + len(two.model.requests) == 20


async def test_messages_and_wishes_are_not_lost_and_said_once(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"*": lambda _: hang()}) as service:
        chain = await service.dispatcher.start(Order("line", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")
        assert await service.dispatcher.send_message(chain.id, "mind the gap", "ada")
        said = "select count(*) as n from deliveries where kind = 'message'"
        await service.until(lambda: service.sql(said)[0]["n"] == 3)

    def heard(request: Any) -> Any:
        return say(f"heard {shown(request).count('mind the gap')}")

    async with after_a_stop(
        tmp_path, {"Leaf": heard, "Middle": heard, "Synthesizer": [say("s")], "Lead": heard}
    ) as service:
        end = await service.ended(chain.id)

        assert end.result is not None
        assert end.result.text == "heard 1"
        results_ = service.sql("select agent, result ->> 'output' as text from executions where role = 'stage' order by id")
        assert [row["text"] for row in results_] == ["heard 1", "heard 1", "heard 1"]


@pytest.mark.parametrize("window", [200_000, 1000])  # in a small one, making room for it is what is written last
async def test_what_was_said_to_a_synthesis_after_its_answer_is_answered_after_a_stop(tmp_path: Path, window: int) -> None:
    model = f"{{model: m, max_tokens: 100, context_window: {window}}}"
    config = f"{{models: {{m: {model}}}, agents: {{Merger: {{strategy: synthesis}}}}}}"
    held = anyio.Event()
    async with bench(tmp_path, config, {"Merger": [gate(held, say("merged")), hang()]}) as service:
        started = await service.dispatcher.start(Order("Merger", "merge"))
        with anyio.fail_after(10):
            await service.model.started("Merger")
            await service.dispatcher.send_message(started.id, "name the culprit " + "now " * 1000, "ada")
            held.set()
            await service.model.started("Merger", 2)
        written = service.sql("select kind from messages order by position")
        assert [row["kind"] for row in written][3:] == ([] if window > 1000 else ["compaction"])

    later: dict[str, Script] = {"Merger": [lambda request: say(f"told {'culprit' in shown(request)}")]}
    async with after_a_stop(tmp_path, later, config=config) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert end.result.text == "told True"


async def test_an_accepted_report_stands_after_a_stop(tmp_path: Path) -> None:
    begun, never = anyio.Event(), anyio.Event()

    async def act(_: object) -> str:
        begun.set()
        await never.wait()
        return "never"

    tools = LocalTools({"act": act})
    finish = call("finish", status="partial", summary="half", reason="no access")
    async with bench(tmp_path, CONFIG, {"Leaf": [finish + call("act")]}, tools.for_agents("Leaf")) as service:
        started = await service.dispatcher.start(Order("Leaf", "find it"))
        with anyio.fail_after(10):
            await begun.wait()
        await service.until(lambda: service.sql("select id from tool_calls where status = 'completed'"))

    async with after_a_stop(tmp_path, {}, tools) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert (end.result.outcome, end.result.summary) == ("partial", "half")
        assert service.model.requests == []


async def test_a_wrap_up_requested_while_no_process_ran_it_is_delivered(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Lead": [say("so far") + call("list_agents"), hang()]}) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        await service.model.started("Lead", 2)

    async with bench(tmp_path, CONFIG, {"Lead": [say("what I have")]}) as service:
        assert await service.dispatcher.ask_to_wrap_up(started.id) == "requested"
        await service.dispatcher.adopt()
        end = await service.ended(started.id)

        assert end.result is not None
        assert (end.result.outcome, end.result.reason, end.result.text) == ("partial", "asked", "what I have")
