"""How a route ends when it is stopped, steered, short of time, money or depth, or when whoever handles a message fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.llm.protocol import Request, Usage
from runner.service.order import Order
from tests.runner.strategies.loop.spenders import MODELS
from tests.runner.strategies.plan.planned import plan, step
from tests.runner.strategies.route.routed import coordinator, decide
from tests.support.gated import DELETE, asked, deleting
from tests.support.gated import decide as answer
from tests.support.local_tools import LocalTools
from tests.support.models import Script, Turn, call, fail, gate, hang, say, shared
from tests.support.reading import dispatch, shown
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

BOTH = plan(step("a", "database", "list"), step("b", "gmail", "send", dependsOn=["a"]))


@pytest.mark.parametrize("stops_at", ["Classifier", "database", "Planner", "gmail"])
async def test_a_cancelled_route_ends_as_one_and_shows_nothing_that_was_only_for_itself(
    tmp_path: Path, stops_at: str
) -> None:
    decided = decide("database") if stops_at == "database" else decide("database", "gmail", plan=True)
    scripts: dict[str, Script] = {"Classifier": [decided], "Planner": [BOTH], "database": [say("three tasks")]}
    async with bench(tmp_path, coordinator(), {**scripts, stops_at: [hang()]}) as service:
        started = await service.dispatcher.start(Order("Coord", "list and send", user="eve"))
        with anyio.fail_after(10):
            await service.model.started(stops_at)
        await service.dispatcher.cancel(started.id, "eve", "never mind")
        ended = await service.ended(started.id)
        assert ended.result is not None
        assert ended.status == "cancelled"
        assert service.model.running == 0
        assert not service.sql("select id from executions where finished_at is null")
        assert ended.result.output == ("three tasks" if stops_at == "gmail" else None)


def heard(service: Bench, agent: str) -> int:
    """How many messages have come to an agent."""
    query = "select d.id from deliveries d join executions e on e.id = d.execution_id where kind = 'message' and agent = ?"
    return len(service.sql(query, agent))


async def test_a_message_to_a_route_reaches_its_children_now_and_later(tmp_path: Path) -> None:
    judging, working = anyio.Event(), anyio.Event()
    scripts = {
        "Classifier": shared(gate(judging, decide("database")), decide("database")),
        "database": shared(gate(working, say("listed")), say("listed, as you said")),
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        started = await service.dispatcher.start(Order("Coord", "list my tasks", user="eve"))
        with anyio.fail_after(10):
            await service.model.started("Classifier")
            assert await service.dispatcher.send_message(started.id, "only those of today", "eve")
            await service.until(lambda: heard(service, "Classifier") == 1)
            judging.set()
            await service.until(lambda: heard(service, "database") == 1)
            assert await service.dispatcher.send_message(started.id, "and <message>short</message>", "eve")
            await service.until(lambda: heard(service, "database") == 2)
            working.set()
            ended = await service.ended(started.id)
        assert ended.result is not None
        assert ended.result.text == "listed, as you said"
        assert "only those of today" in shown(service.model.of("Classifier")[-1])
        last = shown(service.model.of("database")[-1])
        assert "only those of today" in last
        assert "and <~message>short</~message>" in last


async def test_a_route_that_is_asked_to_conclude_starts_no_child_and_a_running_child_concludes(tmp_path: Path) -> None:
    judging, working = anyio.Event(), anyio.Event()
    scripts = {
        "Classifier": shared(gate(judging, decide("database")), decide("database"), decide("database")),
        "database": shared(gate(working, call("nothing")), say("two tasks so far")),
    }
    async with bench(tmp_path, coordinator(), scripts) as service:
        first = await service.dispatcher.start(Order("Coord", "list", user="eve"))
        with anyio.fail_after(10):
            await service.model.started("Classifier")
            assert await service.dispatcher.ask_to_wrap_up(first.id) == "requested"
            judging.set()
            ended = await service.ended(first.id)
        assert ended.result is not None
        assert (ended.status, ended.result.reason) == ("failed", "asked")
        assert set(service.statuses()) == {"Coord", "Classifier"}

        second = await service.dispatcher.start(Order("Coord", "list", user="eve"))
        with anyio.fail_after(10):
            await service.model.started("database")
            await service.dispatcher.ask_to_wrap_up(second.id)
            await service.until(lambda: len(service.sql("select id from deliveries where kind = 'wrap_up'")) == 4)
            working.set()
            ended = await service.ended(second.id)
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.text) == ("completed", "partial", "two tasks so far")

    async with bench(tmp_path, coordinator(), {"Classifier": [decide("database")], "database": [hang()]}) as service:
        third = await service.dispatcher.start(Order("Coord", "list", user="eve"))
        with anyio.fail_after(10):
            await service.model.started("database")
    told = anyio.Event()

    def last_words(request: Request) -> Turn:
        return say("one task so far") if "conclude" in shown(request).lower() else gate(told, call("nothing"))

    async with bench(tmp_path, coordinator(), {"database": last_words}) as service:
        await service.dispatcher.ask_to_wrap_up(third.id)
        await service.dispatcher.adopt()
        await service.until(lambda: len(service.sql("select id from deliveries where kind = 'wrap_up'")) == 6)
        told.set()
        ended = await service.ended(third.id)
        assert ended.result is not None
        assert (ended.result.outcome, ended.result.text) == ("partial", "one task so far")


@requirement("S4-RO-1", "S4-LX-2")
async def test_the_end_of_the_agent_that_handles_a_message_is_the_end_of_the_route(tmp_path: Path) -> None:
    blocked = call("finish", status="blocked", summary="which list?", reason="there are two", next_steps=["ask"])
    scripts = {
        "Classifier": shared(decide("database"), decide("database"), decide("gmail")),
        "database": shared(fail("invalid", "no", recoverable=False), blocked),
        "gmail": [hang(), hang()],
    }
    config = coordinator().replace("{description: mail,", "{description: mail, timeout: 300ms,")
    async with bench(tmp_path, config, scripts) as service:
        failed = await service.run("Coord", user="eve")
        assert failed.result is not None
        assert (failed.status, failed.error) == ("failed", "the model could not answer: no")
        assert failed.result.output is None

        stuck = await service.run("Coord", user="eve")
        assert stuck.result is not None
        assert (stuck.status, stuck.result.outcome, stuck.result.text) == ("completed", "blocked", "which list?")
        assert (stuck.result.reason, stuck.result.next_steps) == ("there are two", ("ask",))

        late = await service.run("Coord", user="eve")
        assert late.result is not None
        assert (late.status, late.result.outcome, late.error) == ("completed", "partial", None)
        assert (service.statuses()["database"], service.statuses()["gmail"]) == (["failed", "completed"], ["timed_out"])


@requirement("S4-SU-2")
async def test_a_plan_that_failed_is_told_to_the_user_in_the_words_that_were_found_for_it(tmp_path: Path) -> None:
    scripts = {
        "Classifier": [decide("database", "gmail")],
        "Planner": [BOTH],
        "database": [fail("invalid", "the disk is full", recoverable=False)],
        "Composer": [say("I could not list your tasks, so I sent nothing.")],
    }
    async with bench(tmp_path, coordinator(more="chat: {agent: Coord}\n"), scripts) as service:
        child, _ = await service.dispatcher.chat_queue.accept(Order("", "list and send", user="eve"))
        ended = await service.ended(child.id)
        assert ended.result is not None
        assert ended.status == "failed"
        assert [each.type for each in ended.result.errors] == ["model", "dependency_failed"]
        said = service.sql("select content from chat_messages where role = 'assistant'")
        assert said == [{"content": "I could not list your tasks, so I sent nothing."}]


async def test_an_agent_that_handles_a_message_may_have_to_ask_first_and_no_clock_runs_meanwhile(tmp_path: Path) -> None:
    tools = deleting()
    scripts = {"Classifier": [decide("database")], "database": [DELETE, say("deleted it all")]}
    config = coordinator("timeout: 20s")
    async with bench(tmp_path, config, scripts, tools.for_agents("database")) as service:
        started = await service.dispatcher.start(Order("Coord", "delete everything", user="eve"))
        [question] = await asked(service)
        assert (question.agent, question.arguments) == ("database", {"what": "everything"})
        live = service.dispatcher.tree.get(started.id)
        assert live is not None
        assert live.allowance.stands
        assert not tools.calls
        await answer(service, question)
        ended = await service.ended(started.id)
        assert ended.result is not None
        assert (ended.result.text, len(tools.calls)) == ("deleted it all", 1)


async def test_a_route_whose_time_is_over_says_what_was_found_and_nothing_of_how_it_decided(tmp_path: Path) -> None:
    async def never(_: Any) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    looked = say("two tasks so far") + call("look")
    scripts = {"Classifier": [decide("database")], "database": shared(looked, hang())}
    tools = LocalTools({"look": never}).for_agents("database")
    async with bench(tmp_path, coordinator("timeout: 2s"), scripts, tools) as service:
        ended = await service.run("Coord", "list", user="eve")
        assert ended.result is not None
        assert ended.status in ("timed_out", "completed")
        assert (ended.result.outcome, ended.result.text) == ("partial", "two tasks so far")


@requirement("S2-GR-9", "X-16")
async def test_routes_and_plans_are_nested_no_deeper_than_anything_else(tmp_path: Path) -> None:
    more = """
  One: {description: one, sub_agents: [Two, Coord]}
  Two: {description: two, sub_agents: [Coord, Three]}
  Three: {description: three, sub_agents: [Coord]}
"""
    scripts = {
        "One": [dispatch("Two"), say("waiting"), say("one")],
        "Two": shared(dispatch("Coord"), say("waiting"), say("two"), dispatch("Coord"), say("waiting"), say("two"),
                      dispatch("Three"), say("waiting"), say("two")),
        "Three": [dispatch("Coord"), say("waiting"), say("three")],
        "Classifier": shared(decide("database"), decide("database", plan=True)),
        "database": [say("listed")],
    }  # fmt: skip
    async with bench(tmp_path, coordinator(more=more), scripts) as service:
        for _ in range(3):
            assert (await service.run("One", user="eve")).status == "completed"
        rows = service.sql("select agent, depth, status, error from executions where depth > 1 order by id")
        told = [(row["agent"], row["depth"], row["status"]) for row in rows]
        assert told == [
            ("Coord", 2, "completed"), ("Classifier", 3, "completed"), ("database", 3, "completed"),
            ("Coord", 2, "failed"), ("Classifier", 3, "completed"), ("Coordinator", 3, "failed"),
            ("Three", 2, "completed"), ("Coord", 3, "failed"),
        ]  # fmt: skip
        errors = {row["error"] for row in rows if row["status"] == "failed"}
        assert errors == {"agents are nested 3 deep at most, and you are at depth 3"}


@pytest.mark.parametrize(("limit", "asks"), [(1_000, []), (14_000, ["Classifier"]), (60_000, ["Classifier", "database"])])
async def test_a_route_has_one_budget_for_all_its_children(tmp_path: Path, limit: int, asks: list[str]) -> None:
    expensive = decide("database").using(Usage(input_tokens=12_000, output_tokens=1_900))
    scripts = {"Classifier": [expensive], "database": [say("listed")]}
    config = MODELS + coordinator(f"limits: {{max_tokens: {limit}}}")
    async with bench(tmp_path, config, scripts) as service:
        ended = await service.run("Coord", "list", user="eve")
        assert ended.result is not None
        assert [request.agent for request in service.model.requests] == asks
        reason = None if "database" in asks else "token_budget"
        assert ended.result.reason == reason
        skipped = service.sql("select agent from executions where status = 'skipped' and reason = 'token_budget'")
        assert bool(skipped) is (reason is not None)
