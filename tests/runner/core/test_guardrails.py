"""Limits: concurrency, time, turns, depth, caps. Each holds, and what was found before it holds is kept."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from db.clock import moment
from registry.specs import limits
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, crash, fail, gate, hang, say
from tests.support.reading import answer, delivered, dispatch, dispatched, results
from tests.support.requirement import requirement
from tests.support.service import bench
from tests.support.spending import used

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
"""


def lead(more: str) -> str:
    """The configuration with more limits for the lead."""
    return CONFIG.replace("[Left, Right]", "[Left, Right], " + more)


def many(number: int) -> Turn:
    """Dispatch as many as that in one turn."""
    turn = Turn()
    for index in range(number):
        turn += dispatch("Left", str(index))
    return turn


@requirement("S2-GR-1", "S2-GR-2")
async def test_five_children_of_one_parent_run_at_once_and_never_six(tmp_path: Path) -> None:
    opened = anyio.Event()
    alive = peak = 0

    async def work(_: Request) -> Turn:
        nonlocal alive, peak
        alive, peak = alive + 1, max(peak, alive + 1)
        await opened.wait()
        alive -= 1
        return say("left")

    scripts = {"Lead": [many(7), say("waiting"), say("done")], "Left": work}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            second = await service.model.started("Lead", 2)
            await service.model.started("Left", 5)
            counts = service.sql("select status, count(*) as n from executions where depth = 1 group by status")
            assert counts == [{"status": "pending", "n": 2}, {"status": "running", "n": 5}]
            assert [answer(second, index).get("queue_position") for index in range(7)] == [None] * 5 + [1, 2]
            opened.set()
            await service.dispatcher.wait(started.id)

        assert peak == 5
        assert len(service.model.of("Left")) == 7


@requirement("S2-GR-2")
async def test_a_dispatch_over_the_limit_can_be_refused_instead(tmp_path: Path) -> None:
    opened = anyio.Event()
    config = lead("max_concurrent_agents: 1, limits: {on_limit: error}")
    scripts = {"Lead": [many(2), say("waiting"), say("done")], "Left": [gate(opened, say("left"))]}
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            second = await service.model.started("Lead", 2)
            opened.set()
            await service.dispatcher.wait(started.id)

        refused = results(second)[1]
        assert refused["is_error"]
        assert "max_concurrent_agents" in refused["content"]
        assert dispatched(second)[0] in refused["content"]
        assert "hint:" in refused["content"]
        assert len(service.sql("select id from executions where depth = 1")) == 1


@requirement("S2-GR-3")
@pytest.mark.parametrize("kind", ["completed", "failed", "crashed", "timed_out", "cancelled"])
async def test_a_slot_is_freed_at_every_kind_of_end(tmp_path: Path, kind: str) -> None:
    first = {"completed": say("left"), "failed": fail(), "crashed": crash(RuntimeError("a bug"))}.get(kind, hang())
    config = lead("max_concurrent_agents: 1")
    if kind == "timed_out":
        config = config.replace("looks left", "looks left, limits: {timeout: 150ms, wrap_up_reserve: 0s}")
    scripts = {
        "Lead": lambda request: dispatch("Left") + dispatch("Right") if len(request.messages) == 1 else say("so far"),
        "Left": [first],
        "Right": [say("right")],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            left = await service.model.started("Left")
            if kind == "cancelled":
                await service.dispatcher.cancel(left.execution_id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)

        assert service.statuses()["Left"] == ["failed" if kind == "crashed" else kind]
        assert service.statuses()["Right"] == ["completed"]


@requirement("S2-GR-4", "S2-LE-13")
async def test_a_child_over_its_time_is_ended_also_inside_a_tool_call_and_what_it_found_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RESERVE_SHARE", 0.6)

    async def forever(_: Any) -> str:
        await anyio.sleep_forever()
        return "never"

    config = lead("agent_timeout: 800ms")
    scripts = {
        "Lead": lambda request: dispatch("Left") + dispatch("Right") if len(request.messages) == 1 else say("so far"),
        "Left": [say("half") + call("forever"), hang()],
        "Right": [say("a third") + call("nothing"), hang(), say("in time")],
    }
    tools = LocalTools({"forever": forever})
    async with bench(tmp_path, config, scripts, tools.for_agents("Left")) as service:
        with anyio.fail_after(10):
            await service.run("Lead")

        rows = service.sql("select status, outcome, reason, error_type from executions where depth = 1 order by agent")
        assert rows[0] == {"status": "timed_out", "outcome": "partial", "reason": "timeout", "error_type": "timeout"}
        assert rows[1] == {"status": "completed", "outcome": "partial", "reason": "time_budget", "error_type": None}
        texts = {each.agent: each.text for each in delivered(service.model.of("Lead")[-1])}
        assert texts == {"Left": "half", "Right": "in time"}


@requirement("S2-GR-4")
async def test_the_time_of_a_child_counts_from_its_start_not_from_its_dispatch(tmp_path: Path) -> None:
    opened = anyio.Event()
    config = lead("max_concurrent_agents: 1, agent_timeout: 10s")
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), say("waiting"), say("done")],
        "Left": [gate(opened, say("left"))],
        "Right": [say("right")],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            opened.set()
            await service.dispatcher.wait(started.id)

        row = service.sql("select created_at, started_at, deadline_at from executions where agent = 'Right'")[0]
        assert row["started_at"] > row["created_at"]
        assert 9.9 < (moment(row["deadline_at"]) - moment(row["started_at"])).total_seconds() < 10.1


@requirement("S2-GR-5")
@pytest.mark.parametrize("asked", [{}, {"timeout_seconds": 100}])
async def test_a_child_never_gets_more_time_than_its_parent_has_left(tmp_path: Path, asked: dict[str, Any]) -> None:
    config = lead("timeout: 2s, agent_timeout: 300s")
    scripts = {"Lead": [dispatch("Left", **asked), say("waiting"), say("done")], "Left": [say("left")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

        parent, child = service.sql("select deadline_at from executions order by depth")
        assert child["deadline_at"] < parent["deadline_at"]


@requirement("S2-GR-6")
async def test_the_whole_run_is_over_when_its_time_is(tmp_path: Path) -> None:
    config = lead("timeout: 400ms")
    scripts = {"Lead": [many(3), hang(), hang()], "Left": [hang(), hang()]}
    async with bench(tmp_path, config, scripts) as service:
        with anyio.fail_after(3):
            ended = await service.run("Lead")

        assert ended.status == "timed_out"
        assert ended.elapsed < 1.5
        assert service.sql("select id from executions where finished_at is null") == []
        assert service.model.running == 0


@requirement("S2-GR-7")
async def test_in_the_reserve_an_agent_answers_with_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "RESERVE_SHARE", 1.0)  # it begins soon and lasts, however busy the machine is

    async def forever(_: Any) -> str:
        await anyio.sleep_forever()
        return "never"

    config = lead("limits: {timeout: 20s, wrap_up_reserve: 19500ms}")
    scripts = {"Lead": [dispatch("Right"), call("forever"), say("what I have")], "Right": [say("right")]}
    tools = LocalTools({"forever": forever})
    async with bench(tmp_path, config, scripts, tools.for_agents("Lead")) as service:
        with anyio.fail_after(10):
            ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "time_budget")
        assert ended.result.text == "what I have"
        last = service.model.of("Lead")[-1]
        assert not last.tools
        assert [each.text for each in delivered(last)] == ["right"]


@requirement("S2-GR-9")
async def test_depth_and_cycles_are_refused_through_dispatch_agent(tmp_path: Path) -> None:
    config = """
    agents:
      A: {description: a, sub_agents: [B]}
      B: {description: b, sub_agents: [C, A]}
      C: {description: c, sub_agents: [D]}
      D: {description: d, sub_agents: [E]}
      E: {description: e}
    """
    scripts = {
        "A": [dispatch("B"), say("waiting"), say("a")],
        "B": [dispatch("A") + dispatch("C"), say("waiting"), say("b")],
        "C": [dispatch("D"), say("waiting"), say("c")],
        "D": [dispatch("E"), say("alone")],
    }
    async with bench(tmp_path, config, scripts) as service:
        assert (await service.run("A")).status == "completed"

        cycle = results(service.model.of("B")[1])[0]
        assert cycle["is_error"]
        assert "A → B → A" in cycle["content"]
        deep = results(service.model.of("D")[1])[0]
        assert deep["is_error"]
        assert "3 deep" in deep["content"]
        assert service.sql("select max(depth) as depth from executions") == [{"depth": 3}]
        kinds = service.sql("select type from error_records order by type")
        assert [row["type"] for row in kinds] == ["delegation_cycle", "max_depth_exceeded"]


@requirement("S2-GR-12")
async def test_no_more_agents_are_dispatched_than_the_run_may(tmp_path: Path) -> None:
    scripts = {"Lead": [many(3), say("waiting"), say("done")], "Left": [say("left")]}
    async with bench(tmp_path, lead("limits: {max_dispatches: 2}"), scripts) as service:
        assert (await service.run("Lead")).status == "completed"

        refused = results(service.model.of("Lead")[1])[2]
        assert refused["is_error"]
        assert "max_dispatches" in refused["content"]
        assert len(service.model.of("Left")) == 2


@requirement("S2-GR-12")
@pytest.mark.parametrize(("limit", "reason"), [("max_tokens: 9000", "token_budget"), ("max_cost_usd: 0.1", "cost_budget")])
async def test_a_run_whose_budget_is_used_up_by_its_child_concludes(tmp_path: Path, limit: str, reason: str) -> None:
    price = "price: {input: 10, output: 10, cache_write: 10, cache_write_1h: 10, cache_read: 1}"
    config = f"models: {{big: {{model: big-1, max_tokens: 2000, {price}}}}}\n" + lead(f"limits: {{{limit}}}, model: big")
    config = config.replace("looks left", "looks left, model: big")

    def answer(request: Request) -> Turn:
        if not request.tools:
            return say("concluded").using(used(request))
        return (say("left") if request.agent == "Left" else dispatch("Left")).using(used(request, 1500))

    async with bench(tmp_path, config, {"*": answer}) as service:
        ended = await service.run("Lead")

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason, ended.result.text) == ("partial", reason, "concluded")
        assert not service.model.of("Lead")[-1].tools
        assert len(service.model.of("Left")) >= 1
        [total] = service.sql("select subtree_tokens, subtree_cost_usd from execution_tree where depth = 0")
        assert total["subtree_tokens"] <= 9000
        assert total["subtree_cost_usd"] <= 0.1


@requirement("S2-GR-13")
async def test_a_model_call_has_a_time_limit_of_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG + "defaults: {limits: {model_timeout: 100ms}}\n", {"Left": [hang()]}) as service:
        with anyio.fail_after(3):
            ended = await service.run("Left")

        assert (ended.status, ended.error) == ("failed", "the model could not answer: no answer within 0.1 s")


@requirement("S2-SE-2")
async def test_slots_are_counted_per_parent_so_nested_limits_of_one_do_not_block(tmp_path: Path) -> None:
    config = """
    defaults: {limits: {max_concurrent_agents: 1, max_concurrent_roots: 1}}
    agents:
      A: {sub_agents: [B]}
      B: {description: b, sub_agents: [C]}
      C: {description: c, sub_agents: [D]}
      D: {description: d}
    """
    scripts: dict[str, Any] = {
        name: [dispatch(below) + dispatch(below), say("waiting"), say(name)] for name, below in ("AB", "BC", "CD")
    }
    scripts["D"] = [say("D")]
    async with bench(tmp_path, config, scripts) as service:
        assert (await service.run("A")).status == "completed"

        counts = service.sql("select agent, count(*) as n from executions group by agent order by agent")
        assert [row["n"] for row in counts] == [1, 2, 4, 8]


@requirement("S2-LE-3")
async def test_a_burst_of_dispatches_never_takes_a_slot_twice(tmp_path: Path) -> None:
    alive = peak = 0

    async def work(_: Request) -> Turn:
        nonlocal alive, peak
        alive, peak = alive + 1, max(peak, alive + 1)
        await anyio.lowlevel.checkpoint()
        alive -= 1
        return say("left")

    scripts = {"Lead": [many(50), say("waiting"), say("done")], "Left": work}
    async with bench(tmp_path, CONFIG, scripts) as service:
        assert (await service.run("Lead")).status == "completed"

        assert peak <= 5
        assert len(service.model.of("Left")) == 50
        assert len(service.model.of("Lead")) == 3  # fifty ends cost one turn


DOWN = [("One", "Two"), ("Two", "Three"), ("Three", "Four")]


@requirement("S2-GR-15")
async def test_parents_that_wait_never_starve_their_children_of_slots(tmp_path: Path) -> None:
    config = """
    defaults: {limits: {max_concurrent_roots: 1, max_concurrent_agents: 1}}
    agents:
      One: {sub_agents: [Two]}
      Two: {description: second, sub_agents: [Three]}
      Three: {description: third, sub_agents: [Four]}
      Four: {description: fourth}
    """
    two = {name: [dispatch(below) + dispatch(below), say("waiting"), say(name)] for name, below in DOWN}
    async with bench(tmp_path, config, {**two, "Four": [say("deep")]}) as service:
        with anyio.fail_after(15):
            first, second = [await service.dispatcher.start(Order("One")) for _ in range(2)]
            assert (await service.dispatcher.wait(second.id)).status == "completed"
            assert (await service.dispatcher.wait(first.id)).status == "completed"

        counts = {agent: len(statuses) for agent, statuses in service.statuses().items()}
        assert counts == {"One": 2, "Two": 4, "Three": 8, "Four": 16}
        assert {status for statuses in service.statuses().values() for status in statuses} == {"completed"}


@requirement("S2-GR-15")
async def test_a_limit_on_model_calls_holds_and_five_children_still_come_to_their_end(tmp_path: Path) -> None:
    config = """
    defaults: {limits: {max_concurrent_model_calls: 1}}
    agents: {Lead: {sub_agents: [Left]}, Left: {description: left}}
    """

    async def left(_request: Request) -> Turn:
        for _ in range(20):  # long enough for everybody else to ask
            await anyio.lowlevel.checkpoint()
        return say("left")

    async with bench(tmp_path, config, {"Lead": [many(5), say("waiting"), say("done")], "Left": left}) as service:
        assert (await service.run("Lead")).status == "completed"
        assert service.statuses()["Left"] == ["completed"] * 5
        assert service.model.peak == 1


@requirement("S2-GR-15")
async def test_without_a_limit_on_model_calls_children_ask_at_once_whatever_other_trees_do(tmp_path: Path) -> None:
    config = "agents: {Lead: {sub_agents: [Left], max_concurrent_agents: 3}, Left: {description: left}}"
    opened = anyio.Event()
    scripts = {"Lead": [dispatch("Left") + dispatch("Left") + dispatch("Left"), say("so"), say("done")]}
    async with bench(tmp_path, config, {**scripts, "Left": [gate(opened, say("left"))]}) as service:
        with anyio.fail_after(10):
            started = [await service.dispatcher.start(Order("Lead")) for _ in range(4)]
            await service.model.started("Left", 12)  # each of four parents has its own three slots
            opened.set()
            ended = [await service.dispatcher.wait(each.id) for each in started]
        assert [each.status for each in ended] == ["completed"] * 4
