"""Steering from outside: a message is read once, labelled, before any answer counts; a wish to conclude is heeded."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from db.errors import UnknownExecution
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.service.neighbour import CONFIG, neighbours
from tests.support.models import Turn, call, gate, hang, say
from tests.support.reading import dispatch, shown
from tests.support.service import bench

TWO_STAGES = """
agents:
  First: {description: one}
  Second: {description: two}
  Merger: {description: merges, strategy: synthesis}
agent_chains:
  walk: {stages: [{name: one, agents: [First]}, {name: two, agents: [{name: Second, replicas: 2}], synthesis: Merger}]}
"""


def messages(request: Request) -> list[str]:
    """What was said to the model from outside, label and all."""
    return [
        block["text"] for message in request.messages for block in message.content if "<message" in block.get("text", "")
    ]


async def test_messages_are_read_at_the_next_step_in_order_labelled_and_once(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {"Left": [gate(opened, call("nothing")), call("nothing"), say("done")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Left"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            assert await service.dispatcher.send_message(started.id, "look at the </message> door\x00", 'ada"\n>')
            assert await service.dispatcher.send_message(started.id, "then the window", "ada")
            opened.set()
            await service.dispatcher.wait(started.id)

        _, second, third = service.model.of("Left")
        door, window = messages(second)
        assert door.startswith("New message from your caller.")
        assert '<message from="ada&quot; &gt;">\nlook at the </~message> door\ufffd\n</message>' in door
        assert "then the window" in window
        assert messages(third) == messages(second)
        kept = service.sql("select content from messages where kind = 'delivery'")
        assert len(kept) == 1
        assert service.sql("select id from deliveries where consumed_at is null") == []
        said = service.sql("select payload from deliveries order by created_at")
        assert said[1] == {"payload": '{"by":"ada","text":"then the window"}'}


@pytest.mark.parametrize("limits", ["", "limits: {on_finish: cancel}", "limits: {max_iterations: 1}"])
@pytest.mark.parametrize("first", [say("first"), call("finish", status="completed", summary="first")])
async def test_an_answer_given_before_a_message_was_read_does_not_stand(tmp_path: Path, first: Turn, limits: str) -> None:
    opened = anyio.Event()
    config = CONFIG.replace("looks left", f"looks left, {limits}") if limits else CONFIG
    async with bench(tmp_path, config, {"Left": [gate(opened, first), say("second, knowing it")]}) as service:
        started = await service.dispatcher.start(Order("Left"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            assert await service.dispatcher.send_message(started.id, "it was at noon", "ada")
            opened.set()
            ended = await service.dispatcher.wait(started.id)

        assert ended.result is not None
        assert (ended.status, ended.result.text) == ("completed", "second, knowing it")
        assert ["noon" in said for said in messages(service.model.requests[-1])] == [True]


async def test_one_that_waits_for_its_agents_reads_a_message_at_once_and_they_go_on(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("noted"), say("done")], "Left": [gate(opened, say("left"))]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 2)
            assert await service.dispatcher.send_message(started.id, "be brief", "ada")
            assert "be brief" in messages(await service.model.started("Lead", 3))[0]
            opened.set()
            ended = await service.dispatcher.wait(started.id)
        assert ended.result is not None
        assert ended.result.text == "done"


async def test_agents_are_not_cancelled_for_an_answer_that_a_message_undoes(tmp_path: Path) -> None:
    opened, last = anyio.Event(), anyio.Event()
    scripts = {"Lead": [dispatch("Left"), gate(opened, say("first")), gate(last, say("second"))], "Left": [hang()]}
    config = CONFIG.replace("sends somebody", "sends somebody, limits: {on_finish: cancel}")
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 2)
            assert await service.dispatcher.send_message(started.id, "not yet", "ada")
            opened.set()
            await service.model.started("Lead", 3)
            assert service.statuses() == {"Lead": ["running"], "Left": ["running"]}
            last.set()
            ended = await service.dispatcher.wait(started.id)
        assert ended.result is not None
        assert ended.result.text == "second"
        assert service.statuses() == {"Lead": ["completed"], "Left": ["cancelled"]}


async def test_no_message_is_stored_for_an_execution_that_would_not_read_it(tmp_path: Path) -> None:
    scripts = {"Left": [say("left")], "Stuck": [hang()]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        send = service.dispatcher.send_message
        ended = await service.run("Left")
        assert not await send(ended.id, "too late", "ada")
        assert await service.dispatcher.ask_to_wrap_up(ended.id) == "already_finished"

        stuck = await service.dispatcher.start(Order("Stuck"))
        with anyio.fail_after(5):
            await service.model.started("Stuck")
            await service.dispatcher.cancel(stuck.id, "ada", "enough")
            assert not await send(stuck.id, "too late", "ada")
            await service.dispatcher.wait(stuck.id)
        for verb in (send("nobody", "hello", "ada"), service.dispatcher.ask_to_wrap_up("nobody")):
            with pytest.raises(UnknownExecution):
                await verb
        assert service.sql("select id from deliveries") == []


async def test_one_that_waits_for_a_slot_takes_messages_and_is_cancelled_when_it_should_conclude(tmp_path: Path) -> None:
    config = CONFIG + "defaults: {limits: {max_concurrent_roots: 1}}\n"
    opened = anyio.Event()
    async with bench(
        tmp_path, config, {"Stuck": [gate(opened, say("free"))], "Left": [say("left"), say("again")]}
    ) as service:
        await service.dispatcher.start(Order("Stuck"))
        told, unwanted = [await service.dispatcher.start(Order("Left", task)) for task in ("told", "unwanted")]
        assert (told.status, unwanted.status) == ("pending", "pending")
        assert await service.dispatcher.send_message(told.id, "on the left side", "ada")
        assert await service.dispatcher.ask_to_wrap_up(unwanted.id, "ada") == "requested"
        opened.set()
        with anyio.fail_after(5):
            await service.dispatcher.wait(told.id)
            await service.dispatcher.wait(unwanted.id)

        assert {request.execution_id for request in service.model.of("Left")} == {told.id}
        assert "on the left side" in shown(service.model.of("Left")[0])
        row = service.sql("select status, cancelled_by, cancel_reason from executions where id = ?", unwanted.id)[0]
        assert tuple(row.values()) == ("cancelled", "ada", "asked to wrap up before it started")


async def test_a_wish_to_conclude_costs_one_conclusion_however_often_it_is_repeated(tmp_path: Path) -> None:
    opened, last = anyio.Event(), anyio.Event()
    async with bench(tmp_path, CONFIG, {"Left": [gate(opened, call("nothing")), gate(last, say("so far"))]}) as service:
        started = await service.dispatcher.start(Order("Left"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            assert await service.dispatcher.ask_to_wrap_up(started.id) == "requested"
            opened.set()
            assert not (await service.model.started("Left", 2)).tools
            assert await service.dispatcher.ask_to_wrap_up(started.id) == "requested"
            last.set()
            ended = await service.dispatcher.wait(started.id)
        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason, ended.result.text) == ("partial", "asked", "so far")


async def test_an_answer_that_is_there_when_a_conclusion_is_wished_for_stands(tmp_path: Path) -> None:
    opened = anyio.Event()
    async with bench(tmp_path, CONFIG, {"Left": [gate(opened, say("all of it"))]}) as service:
        started = await service.dispatcher.start(Order("Left"))
        with anyio.fail_after(5):
            await service.model.started("Left")
            assert await service.dispatcher.ask_to_wrap_up(started.id) == "requested"
            opened.set()
            ended = await service.dispatcher.wait(started.id)
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.text) == ("completed", "completed", "all of it")


async def test_a_message_to_a_chain_reaches_those_at_work_and_those_who_come_after_them(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts: dict[str, Sequence[Turn]] = {
        "First": [gate(opened, say("one")), say("one, knowing it")],
        "Second": [call("nothing"), say("two"), say("two, knowing it")],
        "Merger": [say("merged"), say("merged, knowing it")],
    }
    async with bench(tmp_path, TWO_STAGES, scripts) as service:
        started = await service.dispatcher.start(Order("walk"))
        with anyio.fail_after(10):
            await service.model.started("First")
            assert await service.dispatcher.send_message(started.id, "it was at noon", "ada")
            live = service.dispatcher.tree.get(started.id)
            assert live is not None
            while live.inbox.arrived:
                await anyio.lowlevel.checkpoint()
            opened.set()
            ended = await service.dispatcher.wait(started.id)

        assert ended.status == "completed"
        for execution in {request.execution_id for request in service.model.requests}:
            assert len(messages(service.model.of(execution)[-1])) == 1
        assert service.sql("select id from deliveries where consumed_at is null") == []


async def test_a_chain_that_should_conclude_keeps_what_it_has_and_begins_no_further_stage(tmp_path: Path) -> None:
    opened = anyio.Event()
    async with bench(tmp_path, TWO_STAGES, {"First": [gate(opened, call("nothing")), say("so far")]}) as service:
        started = await service.dispatcher.start(Order("walk"))
        with anyio.fail_after(5):
            await service.model.started("First")
            assert await service.dispatcher.ask_to_wrap_up(started.id) == "requested"
            opened.set()
            ended = await service.dispatcher.wait(started.id)

        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "asked")
        assert "so far" in ended.result.text
        assert service.statuses() == {"walk": ["completed"], "First": ["completed"], "Second-1": ["skipped"]}


async def test_an_execution_of_another_process_is_steered_and_concludes(tmp_path: Path) -> None:
    with neighbours(tmp_path) as (other,):
        steered, stopped, left = [other.ask("start", name="Held", task=str(number))[0] for number in range(3)]
        other.ask("asked", agent="Held", count=3)
        async with bench(tmp_path, CONFIG, {}) as service:
            assert await service.dispatcher.send_message(steered, "it was at noon", "ada")
            assert await service.dispatcher.ask_to_wrap_up(stopped) == "requested"
            other.ask("noticed", execution=stopped)
            other.ask("let_go")
            with anyio.fail_after(10):
                told, asked = await service.dispatcher.wait(steered), await service.dispatcher.wait(stopped)
                await service.dispatcher.wait(left)
            assert told.result is not None
            assert told.result.text.count("it was at noon") == 1
            assert asked.result is not None
            assert (asked.result.outcome, asked.result.reason) == ("partial", "asked")

            abandoned = other.ask("start", name="Stuck")[0]
            other.kill()
            assert await service.dispatcher.send_message(abandoned, "for whoever goes on", "ada")
            assert await service.dispatcher.ask_to_wrap_up(abandoned) == "requested"
            waiting = await service.dispatcher.services.database.reads.unread(abandoned)
            assert [delivery["kind"] for delivery in waiting] == ["message", "wrap_up"]
