"""The loop: one and the same with and without agents to dispatch; it drains, waits, concludes and asks again."""

from pathlib import Path
from typing import Any

import anyio
import pytest

import runner.strategies.loop.strategy as loop_module
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, gate, say
from tests.support.reading import delivered, dispatch, results, shown
from tests.support.requirement import requirement
from tests.support.service import bench
from tests.support.sources import import_graph

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
"""


@requirement("S2-CT-1")
def test_the_loop_knows_neither_dispatching_nor_executions() -> None:
    graph = import_graph(inside_functions=True)
    seen, waiting = set(), [loop_module.__name__, "runner.strategies.loop.step", "runner.strategies.loop.conversation"]
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(
                each
                for each in graph.get(module, ())
                if each in ("runner.strategies.loop.step", "runner.strategies.loop.conversation")
            )
    imported = {each for module in seen for each in graph[module]}

    forbidden = {
        "runner.core.execution",
        "runner.core.children",
        "runner.core.tree",
        "runner.service.dispatcher",
        "runner.tools.dispatch",
    }
    assert not imported & forbidden


@requirement("S2-CT-2", "S2-GR-14")
async def test_an_agent_without_a_catalogue_behaves_as_if_there_were_no_others(tmp_path: Path) -> None:
    scripts = {"Left": [call("finish", status="completed", summary="seen")]}
    limits = ", max_concurrent_agents: 2, agent_timeout: 5s"
    async with bench(tmp_path, CONFIG, scripts) as plain:
        await plain.run("Left", "look")
    other = tmp_path / "limited"
    other.mkdir()
    async with bench(other, CONFIG.replace("looks left", "looks left" + limits), scripts) as limited:
        assert (await limited.run("Left", "look")).status == "completed"

    first, second = plain.model.requests[0], limited.model.requests[0]
    assert [tool.name for tool in first.tools] == ["finish"]
    assert "<agents>" not in first.system
    assert (first.system, [tool.name for tool in first.tools], shown(first)) == (
        second.system,
        [tool.name for tool in second.tools],
        shown(second),
    )


@requirement("S2-CT-3")
async def test_everything_that_ended_during_one_call_is_in_the_next_request(tmp_path: Path) -> None:
    opened = anyio.Event()
    three = dispatch("Left", "1") + dispatch("Left", "2") + dispatch("Right", "3")
    scripts = {
        "Lead": [three, gate(opened, call("list_agents")), say("done")],
        "Left": [say("left")],
        "Right": [say("right")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        async with service.dispatcher.services.bus.watch() as events:
            started = await service.dispatcher.start(Order("Lead"))
            with anyio.fail_after(5):
                await service.model.started("Lead", 2)
                ended = 0
                while ended < 3:
                    ended += (await events.receive())["type"] == "delivery.created"
                opened.set()
                await service.dispatcher.wait(started.id)

        third = service.model.of("Lead")[2]
        assert sorted(each.text for each in delivered(third)) == ["left", "left", "right"]
        assert [message.kind for message in third.messages].count("delivery") == 1


@requirement("S2-CT-4", "S2-CT-7", "S2-LE-2")
async def test_an_answer_with_an_invented_result_waits_for_the_real_one(tmp_path: Path) -> None:
    opened = anyio.Event()
    fake = '<report agent="Left" execution_id="made-up" state="completed">all is well</report>\nSo all is well.'
    scripts = {
        "Lead": [dispatch("Left"), say(fake), say("it is on fire")],
        "Left": [gate(opened, say("it burns"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        async with service.dispatcher.services.bus.watch() as events:
            started = await service.dispatcher.start(Order("Lead"))
            with anyio.fail_after(5):
                while '"waiting_for":"children"' not in (await events.receive())["payload"]:
                    pass
                assert len(service.model.of("Lead")) == 2
                opened.set()
                ended = await service.dispatcher.wait(started.id)

        assert ended.result is not None
        assert ended.result.text == "it is on fire"
        real = delivered(service.model.of("Lead")[-1])
        assert [(each.agent, each.text) for each in real] == [("Left", "it burns")]
        assert real[0].execution_id in shown(service.model.of("Lead")[-1])
        kept = service.sql("select content from messages where execution_id = ? and kind = 'reply'", started.id)
        assert any("made-up" in row["content"] for row in kept)
        left = service.sql("select json_extract(result, '$.output') as text from executions where agent = 'Left'")
        assert left == [{"text": "it burns"}]


@requirement("S2-CT-5", "S2-GR-8", "S2-LE-7")
async def test_at_the_last_turn_what_arrived_is_read_and_one_call_without_tools_concludes(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [dispatch("Left"), gate(opened, call("list_agents")), say("concluded")],
        "Left": [say("just in time")],
    }
    config = CONFIG.replace("[Left, Right]", "[Left, Right], max_iterations: 2")
    async with bench(tmp_path, config, scripts) as service:
        async with service.dispatcher.services.bus.watch() as events:
            started = await service.dispatcher.start(Order("Lead"))
            with anyio.fail_after(5):
                while (await events.receive())["type"] != "delivery.created":
                    pass
                opened.set()
                ended = await service.dispatcher.wait(started.id)

        last = service.model.of("Lead")[-1]
        assert ended.result is not None
        assert (ended.status, ended.result.outcome, ended.result.reason) == ("completed", "partial", "max_iterations")
        assert ended.result.text == "concluded"
        assert (len(service.model.of("Lead")), list(last.tools)) == (3, [])
        assert [each.text for each in delivered(last)] == ["just in time"]


@requirement("S2-GR-8", "S2-CT-5")
async def test_twenty_turns_are_the_default(tmp_path: Path) -> None:
    scripts = {"Left": lambda request: call("nothing") if request.tools else say("concluded")}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Left")

        assert ended.result is not None
        assert (len(service.model.requests), ended.result.reason) == (21, "max_iterations")


@requirement("S2-CT-6")
async def test_all_calls_of_one_turn_overlap_and_are_answered_in_their_order(tmp_path: Path) -> None:
    inside, all_inside = 0, anyio.Event()
    turns = {"a": anyio.Event(), "b": anyio.Event(), "c": anyio.Event()}
    turns["c"].set()

    async def meet(arguments: Any) -> str:
        nonlocal inside
        inside += 1
        if inside == 3:
            all_inside.set()
        await all_inside.wait()
        name = arguments["name"]
        await turns[name].wait()
        for earlier, later in (("b", "c"), ("a", "b")):  # they end in the opposite order
            if name == later:
                turns[earlier].set()
        return str(name)

    three = call("meet", name="a") + call("meet", name="b") + call("meet", name="c")
    tools = LocalTools({"meet": meet})
    async with bench(tmp_path, CONFIG, {"Left": [three, say("met")]}, tools.for_agents("Left")) as service:
        with anyio.fail_after(5):
            await service.run("Left")

        second = service.model.requests[1]
        assert [block["content"] for block in results(second)] == ["a", "b", "c"]
        asked = [block["id"] for block in second.messages[1].content]
        assert [block["tool_use_id"] for block in results(second)] == asked


@requirement("S2-CT-8")
async def test_an_empty_answer_is_asked_again_twice_then_the_run_concludes(tmp_path: Path) -> None:
    scripts = {"Left": [Turn(), Turn(), Turn(), say("after all")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Left")

        assert ended.result is not None
        assert (ended.status, ended.result.reason, ended.result.text) == ("completed", "empty_answers", "after all")
        assert [bool(request.tools) for request in service.model.requests] == [True, True, True, False]


@requirement("S2-CT-8", "S2-CT-4")
async def test_empty_answers_while_waiting_do_not_end_the_run_early(tmp_path: Path) -> None:
    gates = [anyio.Event() for _ in range(4)]
    four = dispatch("Left", "0") + dispatch("Left", "1") + dispatch("Left", "2") + dispatch("Left", "3")
    lead = [four, Turn(), Turn(), Turn(), Turn(), say("all four are in")]
    index = iter(range(4))

    def left(_: Request) -> Turn:
        number = next(index)
        return gate(gates[number], say(f"left {number}"))

    config = CONFIG.replace("[Left, Right]", "[Left, Right], limits: {wake: any}")
    async with bench(tmp_path, config, {"Lead": lead, "Left": left}) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            for number, opened in enumerate(gates):
                await service.model.started("Lead", number + 2)
                opened.set()
            ended = await service.dispatcher.wait(started.id)

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.text) == ("completed", "all four are in")


@requirement("S2-CT-5", "S2-LE-7")
async def test_a_message_that_comes_during_the_conclusion_is_read_and_the_run_still_ends(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {"Left": [call("nothing"), gate(opened, say("first conclusion")), say("second, knowing it")]}
    config = CONFIG.replace("looks left", "looks left, max_iterations: 1")
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Left"))
        with anyio.fail_after(5):
            await service.model.started("Left", 2)
            assert await service.dispatcher.send_message(started.id, "the deploy was at noon", "ada")
            opened.set()
            ended = await service.dispatcher.wait(started.id)

        assert ended.result is not None
        assert (ended.status, ended.result.text) == ("completed", "second, knowing it")
        assert "the deploy was at noon" in shown(service.model.requests[-1])
        assert not service.model.requests[-1].tools


@requirement("S2-CT-9", "S2-TL-8")
@pytest.mark.parametrize("end", ["error", "cancel", "answer"])
async def test_each_tool_call_has_exactly_one_stored_result_however_it_ended(tmp_path: Path, end: str) -> None:
    inside = anyio.Event()

    async def slow(_: Any) -> str:
        inside.set()
        await anyio.sleep_forever()
        return "never"

    async def broken(_: Any) -> str:
        raise RuntimeError("a bug in a tool")

    tools = LocalTools({"slow": slow, "broken": broken})
    two = {"error": call("broken") + call("broken"), "cancel": call("slow") + call("broken"), "answer": call("no_such")}
    async with bench(tmp_path, CONFIG, {"Left": [two[end], say("done")]}, tools.for_agents("Left")) as service:
        started = await service.dispatcher.start(Order("Left"))
        with anyio.fail_after(5):
            if end == "cancel":
                await inside.wait()
                await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)

        rows = service.sql("select status, is_error, result, finished_at from tool_calls")
        assert len(rows) == (1 if end == "answer" else 2)
        assert all(row["is_error"] and row["result"] and row["finished_at"] for row in rows)
        assert {row["status"] for row in rows} == {"failed" if end == "answer" else "unknown"}


async def test_an_answer_cut_while_agents_are_out_is_not_glued_to_the_one_given_when_they_are_back(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [dispatch("Left"), say("I expect that", stop_reason="max_tokens"), say("it burns")],
        "Left": [gate(opened, say("fire"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 2)
            opened.set()
            ended = await service.dispatcher.wait(started.id)
        assert ended.result is not None
        assert (ended.result.text, ended.result.outcome) == ("it burns", "completed")


async def test_a_conversation_that_is_too_long_ends_with_what_there_is_once_its_agents_have_ended(tmp_path: Path) -> None:
    opened = anyio.Event()
    full = say("so far", stop_reason="model_context_window_exceeded")
    scripts = {"Lead": [dispatch("Left"), gate(opened, full)], "Left": [gate(opened, say("fire")), say("fire")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 2)
            await service.model.started("Left")
            opened.set()
            ended = await service.dispatcher.wait(started.id)
        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason) == ("partial", "context_window")
        assert ended.result.text.startswith("so far\n\nThere was no conclusion (context_window). Its agents reported:")
        assert ended.result.text.endswith("### Left (completed)\n\nfire")
        assert service.statuses() == {"Lead": ["completed"], "Left": ["completed"]}
        assert len(service.model.of("Lead")) == 2
