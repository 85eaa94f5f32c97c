"""Dispatching an agent: admission, slot, row, task, id — and what happens when one of them fails."""

from pathlib import Path

import anyio
import pytest

from db.store.engine import sqlite_library
from runner.service.order import Order
from tests.support.models import Turn, call, crash, fail, gate, hang, say
from tests.support.reading import answer, delivered, dispatch, dispatched, results
from tests.support.requirement import requirement
from tests.support.service import bench

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
  Stranger: {description: somebody else}
"""


@requirement("S2-RN-1")
async def test_only_agents_of_the_catalogue_can_be_dispatched(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Nobody") + dispatch("Stranger"), say("alone then")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        assert (await service.run("Lead")).status == "completed"

        unknown, foreign = results(service.model.of("Lead")[1])
        assert unknown["is_error"]
        assert foreign["is_error"]
        for refused in (unknown, foreign):
            assert "`Left`, `Right`" in refused["content"]
            assert "Stranger`," not in refused["content"]
        assert len(service.sql("select id from executions")) == 1


@requirement("S2-RN-2", "S2-GR-2")
async def test_a_child_without_a_slot_does_not_start_before_another_has_ended(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), say("waiting"), say("both")],
        "Left": [gate(opened, say("left"))],
        "Right": [say("right")],
    }
    config = CONFIG.replace("[Left, Right]", "[Left, Right], max_concurrent_agents: 1")
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            asked = await service.model.started("Lead", 2)
            await service.model.started("Left")
        assert answer(asked, 0)["status"] == "running"
        assert (answer(asked, 1)["status"], answer(asked, 1)["queue_position"]) == ("pending", 1)
        assert service.sql("select status, waiting_for from executions where agent = 'Right'") == [
            {"status": "pending", "waiting_for": "slot"}
        ]
        assert not service.model.of("Right")

        opened.set()
        with anyio.fail_after(5):
            await service.dispatcher.wait(started.id)
        assert service.model.peak <= 2
        assert {each.text for each in delivered(service.model.of("Lead")[-1])} == {"left", "right"}


@requirement("S2-RN-3", "S2-RN-6", "S2-RN-12")
async def test_the_row_of_a_child_is_readable_before_its_id_is_returned(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Left", "count the left"), hang()], "Left": [hang()]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            asked = await service.model.started("Lead", 2)
            request = await service.model.started("Left")

        child = dispatched(asked)[0]
        row = service.sql("select * from executions where id = ?", child)[0]
        assert (row["parent_execution_id"], row["root_execution_id"], row["depth"]) == (started.id, started.id, 1)
        assert (row["agent"], row["task"], row["path"], row["status"]) == ("Left", "count the left", "Lead/Left", "running")
        assert row["deadline_at"] > row["started_at"] >= row["created_at"]
        assert (request.execution_id, [message.text for message in request.messages]) == (child, ["count the left"])
        assert "Right" not in request.system


@requirement("S2-RN-3")
async def test_a_queued_child_has_no_deadline_before_it_starts(tmp_path: Path) -> None:
    config = CONFIG.replace("[Left, Right]", "[Left, Right], max_concurrent_agents: 1")
    scripts = {"Lead": [dispatch("Left") + dispatch("Right"), hang()], "Left": [hang()]}
    async with bench(tmp_path, config, scripts) as service:
        await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 2)

        row = service.sql("select deadline_at, started_at from executions where agent = 'Right'")[0]
        assert row == {"deadline_at": None, "started_at": None}


def change_store(database: Path, statement: str) -> None:
    """Change the schema from outside, with the library the service uses."""
    connection = sqlite_library().connect(database, isolation_level=None)
    connection.execute(statement)
    connection.close()


def break_store(database: Path, when: str) -> None:
    """Let the store refuse a write, as a full disk would."""
    change_store(database, f"create trigger broken before {when} begin select raise(abort, 'no room'); end")


def mend_store(database: Path) -> None:
    """Let the store accept everything again."""
    change_store(database, "drop trigger broken")


@requirement("S2-RN-3", "S2-RN-9")
async def test_a_row_that_cannot_be_stored_is_an_error_and_frees_the_slot(tmp_path: Path) -> None:
    mended, asked = anyio.Event(), anyio.Event()

    def again(_: object) -> object:
        asked.set()
        return gate(mended, dispatch("Right"))

    scripts = {"Lead": [dispatch("Left"), again, say("waiting"), say("done")], "Right": [say("right")]}
    config = CONFIG.replace("[Left, Right]", "[Left, Right], max_concurrent_agents: 1")
    async with bench(tmp_path, config, scripts) as service:
        break_store(service.database, "insert on executions when new.agent = 'Left'")
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await asked.wait()
        assert results(service.model.of("Lead")[1])[0]["is_error"]
        mend_store(service.database)
        mended.set()
        with anyio.fail_after(5):
            ended = await service.dispatcher.wait(started.id)

        assert ended.status == "completed"
        assert service.statuses() == {"Lead": ["completed"], "Right": ["completed"]}


@requirement("S2-RN-9")
async def test_a_child_whose_start_cannot_be_stored_ends_and_its_parent_goes_on(tmp_path: Path) -> None:
    config = CONFIG.replace("[Left, Right]", "[Left, Right], max_concurrent_agents: 1")
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), say("waiting"), say("done")],
        "Left": [say("left")],
    }
    async with bench(tmp_path, config, scripts) as service:
        # Left has a slot and begins with its row; Right waits for it, and its start is a write of its own.
        break_store(service.database, "update on executions when new.agent = 'Right' and new.status = 'running'")
        ended = await service.run("Lead")

        assert ended.status == "completed"
        assert service.sql("select id from executions where finished_at is null") == []
        assert service.statuses()["Left"] == ["completed"]
        assert service.statuses()["Right"] != ["completed"]
        assert len(delivered(service.model.of("Lead")[-1])) == 2


@requirement("S2-RN-9")
async def test_a_top_level_row_that_cannot_be_stored_frees_its_slot(tmp_path: Path) -> None:
    config = CONFIG + "defaults: {limits: {max_concurrent_roots: 1}}\n"
    async with bench(tmp_path, config, {"Left": [say("left")]}) as service:
        break_store(service.database, "insert on executions")
        with pytest.raises(Exception, match="no room"):
            await service.dispatcher.start(Order("Left"))
        mend_store(service.database)

        assert (await service.run("Left")).status == "completed"


@requirement("S2-RN-7")
@pytest.mark.parametrize("broken", [crash(RuntimeError("a bug")), fail(), crash(TypeError("another"))])
async def test_a_child_that_raises_never_cancels_its_siblings(tmp_path: Path, broken: Turn) -> None:
    waits, opened = anyio.Event(), anyio.Event()
    scripts = {
        "Lead": [
            dispatch("Left", "a") + dispatch("Right") + dispatch("Left", "b"),
            say("waiting"),
            say("go on"),
            say("all"),
        ],
        "Left": [gate(opened, say("left"))],
        "Right": [gate(waits, broken)],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(20):
            # A failure before the second request would come with it and wake nothing.
            await service.model.started("Lead", 2)
            waits.set()
            # The failure wakes the parent while the others still work.
            woken = await service.model.started("Lead", 3)
            assert [each.status for each in delivered(woken)] == ["failed"]
            opened.set()
            ended = await service.dispatcher.wait(started.id)

        assert ended.status == "completed"
        assert service.statuses() == {"Lead": ["completed"], "Left": ["completed"] * 2, "Right": ["failed"]}


@requirement("S2-RN-8", "S2-LE-6")
async def test_a_dispatch_returns_while_the_child_still_runs_and_the_child_outlives_the_turn(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [dispatch("Left"), call("list_agents"), call("list_agents"), say("waiting"), say("done")],
        "Left": [gate(opened, say("left"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            fourth = await service.model.started("Lead", 4)
            assert answer(fourth)["executions"][0]["status"] == "running"
            opened.set()
            assert (await service.dispatcher.wait(started.id)).status == "completed"
        assert not service.model.cancelled


@requirement("S2-RN-10")
async def test_one_agent_can_be_dispatched_many_times_and_its_executions_are_numbered(tmp_path: Path) -> None:
    five = dispatch("Left") + dispatch("Left") + dispatch("Left") + dispatch("Left") + dispatch("Left")
    scripts = {"Lead": [five, say("waiting"), say("done")], "Left": [say("left")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Lead")

        rows = service.sql("select id, position from executions where parent_execution_id = ? order by position", ended.id)
        assert [row["position"] for row in rows] == [1, 2, 3, 4, 5]
        assert len({row["id"] for row in rows}) == 5


@requirement("S2-RN-13", "S2-GR-9")
async def test_an_agent_without_a_catalogue_of_its_own_cannot_dispatch(tmp_path: Path) -> None:
    config = """
    agents:
      Top: {sub_agents: [Middle]}
      Middle: {description: dispatches, sub_agents: [Leaf]}
      Leaf: {description: works}
    defaults: {limits: {max_depth: 1}}
    """
    scripts = {
        "Top": [dispatch("Middle"), say("waiting"), say("done")],
        "Middle": [dispatch("Leaf"), say("refused")],
    }
    async with bench(tmp_path, config, scripts) as service:
        assert (await service.run("Top")).status == "completed"

        assert "dispatch_agent" in {tool.name for tool in service.model.of("Middle")[0].tools}
        refused = results(service.model.of("Middle")[1])[0]
        assert refused["is_error"]
        assert "depth" in refused["content"]
        assert "Leaf" not in service.statuses()


@requirement("S2-RN-13")
async def test_a_plain_child_has_no_dispatch_tools(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [dispatch("Right"), say("I cannot")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        assert not {"dispatch_agent", "get_result", "cancel_agent"} & {
            tool.name for tool in service.model.of("Left")[0].tools
        }
        assert results(service.model.of("Left")[1])[0]["is_error"]
        assert "Right" not in service.statuses()


@requirement("S2-RN-4")
async def test_what_a_chain_sets_for_a_parent_does_not_reach_its_children(tmp_path: Path) -> None:
    config = """
    mcp_servers: {}
    agents:
      Lead: {sub_agents: [{name: Left, max_iterations: 7}, Right]}
      Left: {description: looks left, max_iterations: 5}
      Right: {description: looks right}
    agent_chains:
      chain: {limits: {max_iterations: 3}, stages: [{name: only, agents: [Lead]}]}
    """
    turns = [call("list_nothing")] * 9
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), say("waiting"), say("concluded")],
        "Left": [*turns[:7], say("left")],
        "Right": [*turns, say("right")],
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("chain")

        rows = service.sql("select agent, turns, reason from executions where agent in ('Left', 'Right')")
        by_agent = {row["agent"]: row for row in rows}
        assert by_agent["Left"]["reason"] == "max_iterations"  # the reference gives 7, over the agent's own 5
        assert len(service.model.of("Left")) == 8
        assert (len(service.model.of("Right")), by_agent["Right"]["reason"]) == (10, None)


@requirement("S2-RN-14", "S2-GT-3", "S2-LE-11")
async def test_each_way_a_child_can_end_reaches_its_parent_exactly_once(tmp_path: Path) -> None:
    config = """
    agents:
      Lead: {sub_agents: [Good, Bad, Late, Stopped], limits: {wake: all}}
      Good: {description: completes}
      Bad: {description: fails}
      Late: {description: is too slow, limits: {timeout: 700ms, wrap_up_reserve: 100ms}}
      Stopped: {description: is cancelled}
    """
    four = dispatch("Good") + dispatch("Bad") + dispatch("Late") + dispatch("Stopped")
    scripts = {
        "Lead": lambda request: four if len(request.messages) == 1 else say("so far"),
        "Good": [say("all of it")],
        "Bad": [say("half of it") + call("nothing"), fail()],
        "Late": [say("a third") + call("nothing"), hang(), hang()],
        "Stopped": [say("a quarter") + call("nothing"), hang()],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            stopped = await service.model.started("Stopped", 2)
            await service.dispatcher.cancel(stopped.execution_id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)

        last = delivered(service.model.of("Lead")[-1])
        assert sorted((each.agent, each.status, each.text) for each in last) == [
            ("Bad", "failed", "half of it"),
            ("Good", "completed", "all of it"),
            ("Late", "timed_out", "a third"),
            ("Stopped", "cancelled", "a quarter"),
        ]
        rows = service.sql("select child_execution_id, consumed_at from deliveries where execution_id = ?", started.id)
        assert len(rows) == 4
        assert all(row["consumed_at"] for row in rows)
