"""What is told of executions while they happen: every change, every beginning with its end, in order, with the same ids."""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.llm.protocol import Request
from runner.service.order import Order
from tests.support.events import STORED, followed, payload
from tests.support.local_tools import LocalTools, stubborn
from tests.support.models import Turn, call, crash, fail, gate, hang, say
from tests.support.reading import dispatch, dispatched
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
"""


async def kept(service: Bench, query: str = "select * from events order by seq") -> list[dict[str, Any]]:
    """The stored events, payloads read."""
    return [{**row, "payload": json.loads(row["payload"])} for row in service.sql(query)]


@requirement("S2-OB-1")
async def test_each_change_of_state_is_one_event_and_there_are_no_others(tmp_path: Path) -> None:
    config = CONFIG.replace("[Left, Right]", "[Left, Right], max_concurrent_agents: 2")
    opened = anyio.Event()

    def stop_the_last(request: Request) -> Turn:
        return call("cancel_agent", execution_id=dispatched(request)[2])

    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right") + dispatch("Left", "never"), stop_the_last, say("so"), say("done")],
        "Left": [gate(opened, say("left"))],
        "Right": [gate(opened, fail())],
    }
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 3)
            opened.set()
            await service.dispatcher.wait(started.id)

        states: dict[str, list[str]] = {}
        for event in await kept(service, "select * from events where type = 'execution.status' order by seq"):
            states.setdefault(event["execution_id"], []).append(event["payload"]["status"])
        rows = service.sql("select id, status, started_at from executions order by created_at, position")
        assert [row["status"] for row in rows] == ["completed", "completed", "failed", "cancelled"]
        expected = {row["id"]: ["pending", *(["running"] if row["started_at"] else []), row["status"]] for row in rows}
        assert states == expected


@requirement("S2-OB-2")
async def test_a_long_execution_tells_its_phases_in_order(tmp_path: Path) -> None:
    heard, opened = anyio.Event(), anyio.Event()
    tools = LocalTools({"dig": lambda _: _text("soil")})
    scripts = {
        "Lead": [gate(heard, dispatch("Left")), say("waiting"), say("done")],
        "Left": [gate(opened, call("dig")), say("found")],
    }
    async with bench(tmp_path, CONFIG, scripts, tools.for_agents("Left")) as service:
        started = await service.dispatcher.start(Order("Lead"))
        async with followed(service.dispatcher, started.id) as follower:
            await follower.until(lambda: bool(follower.told))
            heard.set()
            await service.model.started("Left")
            opened.set()

        lead = [payload(each) for each in follower.told if each["execution_id"] == started.id]
        left = [payload(each) for each in follower.told if each["parent_execution_id"] == started.id]
        phases = [each["action"] for each in left if "action" in each]
        assert phases[-3:] == ["asking the model", "calling dig", "asking the model"]
        waits = [each["waiting_for"] for each in lead if "waiting_for" in each]
        assert waits == ["children", None]
        actions = [each["action"] for each in lead if "action" in each]
        assert actions[-2:] == ["waiting for an agent", "asking the model"]


async def _text(words: str) -> str:
    return words


def unended(events: list[dict[str, Any]]) -> set[str]:
    """Timeline events that began and did not end, or ended without saying how."""
    begun = {each["payload"]["id"] for each in events if each["type"] == "timeline_event.created"}
    ended = [each["payload"] for each in events if each["type"] == "timeline_event.completed"]
    ways = {"completed", "failed", "unknown", "cancelled"}
    assert len({each["id"] for each in ended}) == len(ended)
    return begun - {each["id"] for each in ended if each.get("status") in ways}


def unbegun(events: list[dict[str, Any]]) -> list[str]:
    """Timeline events that ended and had not begun."""
    begun, found = set[str](), list[str]()
    for each in events:
        if each["type"] == "timeline_event.created":
            begun.add(each["payload"]["id"])
        elif each["type"] == "timeline_event.completed" and each["payload"]["id"] not in begun:
            found.append(each["payload"]["id"])
    return found


WAYS_OUT = ["answer", "cancel", "timeout", "wrap-up", "bug in the model", "bug in a tool", "provider", "stubborn"]


@requirement("S2-OB-3")
@pytest.mark.parametrize("way", WAYS_OUT)
async def test_whatever_begins_in_a_timeline_also_ends(tmp_path: Path, way: str) -> None:
    heard, seen, never, release = anyio.Event(), anyio.Event(), anyio.Event(), anyio.Event()

    async def dig(_: Any) -> str:
        if way == "bug in a tool":
            raise RuntimeError("a bug")
        if way == "stubborn":
            return await stubborn(release)
        if way in ("cancel", "timeout"):
            await never.wait()
        return "soil"

    last = {"bug in the model": crash(RuntimeError("a bug")), "provider": fail()}.get(way, say("done"))
    config = CONFIG
    if way in ("timeout", "wrap-up"):
        config = CONFIG.replace("looks right", "looks right, limits: {timeout: 400ms, wrap_up_reserve: 60ms}")
    if way == "stubborn":
        config = CONFIG.replace("agents:", "defaults: {limits: {cancel_grace: 100ms}}\nagents:", 1)
    right = {"wrap-up": [hang(), say("concluded")], "timeout": [say("done")]}.get(way, [say("right")])
    scripts = {
        "Lead": [
            gate(heard, dispatch("Left") + dispatch("Right") + dispatch("Nobody")),
            gate(seen, say("waiting")),
            last,
            last,
        ],
        "Left": [hang() if way in ("cancel", "stubborn") else say("left")],
        "Right": [call("dig") + call("dig"), *right],
    }
    tools = LocalTools({"dig": dig})
    async with bench(tmp_path, config, scripts, tools.for_agents("Right")) as service:
        started = await service.dispatcher.start(Order("Lead"))
        async with followed(service.dispatcher, started.id) as follower:
            await follower.until(lambda: bool(follower.told))
            heard.set()
            # What is not stored is told only to those who keep up: nothing ends before the follower does.
            await follower.until(lambda: any(each["kind"] == "model" for each in follower.of("timeline_event.created")))
            seen.set()
            if way in ("cancel", "stubborn"):
                await service.model.started("Lead", 2)
                await service.model.started("Left")
                while len(tools.calls) < 2:
                    await anyio.lowlevel.checkpoint()
                await service.dispatcher.cancel(started.id, "a person", "enough")
        release.set()

        told = [{**each, "payload": payload(each)} for each in follower.told]
        assert unended(told) == set()
        assert unended(await kept(service)) == set()
        assert unbegun(told) == unbegun(await kept(service)) == []
        kinds = {each["payload"]["kind"] for each in told if each["type"] == "timeline_event.created"}
        assert kinds == {"model", "tool", "dispatch"}
        refused = [each["payload"] for each in told if each["payload"].get("refused")]
        assert [each["refused"] for each in refused] == ["unknown_agent"]
        assert service.sql("select id from tool_calls where finished_at is null") == []


@requirement("S2-OB-3")
async def test_a_result_is_told_when_it_is_there_and_when_it_is_read(tmp_path: Path) -> None:
    def ask(request: Request) -> Turn:
        return call("get_result", execution_id=dispatched(request)[0], wait_seconds=20)

    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), ask, say("waiting"), say("done")],
        "Left": [say("left")],
        "Right": [say("right")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Lead")

        events = await kept(service)
        made = [each["payload"]["id"] for each in events if each["type"] == "delivery.created"]
        read = [id_ for each in events if each["type"] == "delivery.consumed" for id_ in each["payload"]["deliveries"]]
        assert sorted(read) == sorted(made)
        assert len(read) == 2
        assert {each["execution_id"] for each in events if each["type"].startswith("delivery.")} == {ended.id}


@requirement("S2-OB-5", "S2-OB-6", "S2-OB-9")
async def test_one_follower_hears_of_every_execution_of_a_tree_and_of_no_other(tmp_path: Path) -> None:
    heard, opened = anyio.Event(), anyio.Event()
    both = dispatch("Left", "look left") + dispatch("Right", "look right")
    scripts = {
        "Lead": [gate(heard, both), say("waiting"), say("done")],
        "Left": [gate(opened, say("left"))],
        "Right": [gate(opened, say("right"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead", "look around"))
        other = await service.dispatcher.start(Order("Left", "another tree"))
        async with followed(service.dispatcher, started.id) as follower:
            await follower.until(lambda: bool(follower.told))
            heard.set()
            # What is not stored is told only to those who keep up: the children speak once the follower hears them live.
            await follower.until(
                lambda: len({each["execution_id"] for each in follower.told if each["seq"] is None} - {started.id}) == 2
            )
            opened.set()
        await service.dispatcher.wait(other.id)

        rows = {row["id"]: row for row in service.sql("select * from executions where root_execution_id = ?", started.id)}
        assert {each["execution_id"] for each in follower.told} == set(rows)
        assert {row["agent"] for row in rows.values()} == {"Lead", "Left", "Right"}
        for event in follower.told:
            assert set(event) == set(STORED)
            assert event["root_execution_id"] == started.id
            assert event["session_id"] == rows[event["execution_id"]]["session_id"] is not None
            assert event["parent_execution_id"] == rows[event["execution_id"]]["parent_execution_id"]
            assert event["at"].endswith("Z")
            assert isinstance(payload(event), dict)
        unstored = {each["type"] for each in follower.told if each["seq"] is None}
        assert unstored <= {"execution.progress", "timeline_event.created", "stream.chunk"}
        kinds = {each["type"] for each in follower.told}
        assert kinds >= {"execution.status", "execution.progress", "timeline_event.created", "timeline_event.completed"}
        assert kinds >= {"delivery.created", "delivery.consumed", "stream.chunk"}
        first: dict[str, Any] = {}
        for event in follower.told:
            first.setdefault(event["execution_id"], payload(event))
        assert {each["agent"]: (each["status"], each["task"]) for each in first.values()} == {
            "Lead": ("pending", "look around"),
            "Left": ("pending", "look left"),
            "Right": ("pending", "look right"),
        }


@requirement("S2-OB-7")
async def test_events_are_numbered_upwards_and_each_comes_after_its_row(tmp_path: Path) -> None:
    scripts = {
        "Lead": [dispatch("Left") + dispatch("Right"), say("waiting"), say("done")],
        "Left": [call("nothing"), say("left")],
        "Right": [say("right")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service, service.dispatcher.services.bus.watch() as events:
        started = await service.dispatcher.start(Order("Lead"))
        numbers: list[int] = []
        looked_up = {"model": "model_calls", "tool": "tool_calls", "dispatch": "tool_calls"}
        with anyio.fail_after(10):
            async for event in events:
                said = payload(event)
                if event["seq"] is None:
                    continue
                numbers.append(event["seq"])
                assert service.sql("select type from events where seq = ?", event["seq"]) == [{"type": event["type"]}]
                row = service.sql("select * from executions where id = ?", event["execution_id"])[0]
                if event["type"] == "execution.status":
                    order = ["pending", "running", row["status"]]
                    assert order.index(row["status"]) >= order.index(said["status"])
                elif event["type"].startswith("timeline_event."):
                    assert service.sql(f"select id from {looked_up[said['kind']]} where id = ?", said["id"])
                elif event["type"] == "delivery.created":
                    assert service.sql("select id from deliveries where id = ?", said["id"])
                if event["execution_id"] == started.id and said.get("status") == "completed" and "outcome" in said:
                    break

        assert numbers == sorted(set(numbers))
        assert numbers == [row["seq"] for row in service.sql("select seq from events order by seq")]


@requirement("S2-OB-12")
async def test_the_log_has_one_line_of_json_for_every_stored_event(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "outrider.events")
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say('done "so"\n')], "Left": [say("left")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        lines = [json.loads(each.getMessage()) for each in caplog.records if each.name == "outrider.events"]
        assert lines == await kept(service)
        assert not any("\n" in each.getMessage() for each in caplog.records if each.name == "outrider.events")
