"""Streamed text: few events, in order, that add up to what was said, and only for those who watch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pydantic_core
import pytest

from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.support.events import Follower, followed
from tests.support.messages_api import Answer, cut, messages_api, reply, text, tool_use
from tests.support.requirement import requirement
from tests.support.service import settings_of

CONFIG = """
models: {{m: {{model: claude-sonnet-5-5, base_url: "{url}"}}}}
agents: {{Scout: {{description: scouts}}}}
"""
LONG = "".join(f"{number} bottles; " for number in range(60))


@asynccontextmanager
async def asked(folder: Path, *answers: Answer) -> AsyncIterator[tuple[Dispatcher, str]]:
    """A service whose model streams these answers, and an execution that has just begun."""
    async with messages_api(*answers) as api:
        settings = settings_of(folder, CONFIG.format(url=api.url))
        blueprint = Blueprint(settings, folder / "outrider.db", environ={"ANTHROPIC_API_KEY": "canary"})
        async with open_service(blueprint) as dispatcher:
            yield dispatcher, (await dispatcher.start(Order("Scout", "look"))).id


def heard(follower: Follower) -> dict[str, str]:
    """The text of each timeline event, put together from its pieces as a page would; they must follow each other."""
    texts: dict[str, tuple[int, str]] = {}
    for piece in follower.of("stream.chunk"):
        attempt, so_far = texts.get(piece["timeline_event_id"], (piece["attempt"], ""))
        if piece["attempt"] > attempt:
            attempt, so_far = piece["attempt"], ""
        assert piece["offset"] == len(so_far)
        texts[piece["timeline_event_id"]] = attempt, so_far + piece["text"]
    return {identifier: so_far for identifier, (_, so_far) in texts.items()}


async def spoken(dispatcher: Dispatcher, root: str) -> dict[str, str]:
    """What the rows say was said, by model call."""
    reads = dispatcher.services.database.reads
    replies = [row for row in await reads.messages(root) if row["kind"] == "reply"]
    calls = await reads.model_calls(root)
    blocks: list[list[dict[str, Any]]] = [pydantic_core.from_json(row["content"]) for row in replies]
    texts = ["".join(block["text"] for block in each if block["type"] == "text") for each in blocks]
    return {call["id"]: said for call, said in zip(calls, texts, strict=True)}


@requirement("S2-OB-4", "S2-OB-10")
async def test_pieces_are_gathered_into_few_events_and_add_up_to_the_text(tmp_path: Path) -> None:
    gate = anyio.Event()
    first = reply(text(LONG), text("And more."), tool_use("nothing", {}), gate=gate)
    async with asked(tmp_path, first, reply(text("That is all."))) as (dispatcher, root):
        async with followed(dispatcher, root) as follower:
            await follower.until(lambda: bool(follower.told))
            probe = {**follower.told[0], "seq": None, "type": "probe"}  # not stored: heard once rows are read
            dispatcher.services.bus.publish_unstored(probe)
            await follower.until(lambda: bool(follower.of("probe")))
            gate.set()

        pieces = follower.of("stream.chunk")
        assert len(LONG) / 7 > 100
        assert len(pieces) < 20
        assert heard(follower) == await spoken(dispatcher, root)
        assert list(heard(follower).values()) == [LONG + "And more.", "That is all."]
        kinds = [event["type"] for event in follower.told]
        last = max(index for index, kind in enumerate(kinds) if kind == "stream.chunk")
        assert "timeline_event.completed" in kinds[last:]  # what was said is told before its end


@requirement("S2-OB-10", "S2-OB-4")
async def test_what_was_said_before_a_silence_is_told_soon(tmp_path: Path) -> None:
    gate, never = anyio.Event(), anyio.Event()
    first = reply(tool_use("nothing", {}), gate=gate)
    async with asked(tmp_path, first, reply(text(LONG), gate=never, gate_after=20)) as (dispatcher, root):
        async with followed(dispatcher, root) as follower:
            await follower.until(lambda: bool(follower.told))
            gate.set()
            await follower.until(lambda: LONG[: 17 * 7] in heard(follower).values())
            await dispatcher.cancel(root, "a person", "enough")
        assert follower.of("timeline_event.completed")[-1]["status"] == "cancelled"


@requirement("S2-OB-4")
async def test_what_an_attempt_said_before_it_broke_is_void(tmp_path: Path) -> None:
    gate = anyio.Event()
    broken = Answer(events=cut(reply(text("I was about to say")), 5).events, cut_after=5, gate=gate)
    async with asked(tmp_path, broken, reply(text("Now it is said."))) as (dispatcher, root):
        async with followed(dispatcher, root) as follower:
            await follower.until(lambda: bool(follower.told))
            gate.set()
        assert {piece["attempt"] for piece in follower.of("stream.chunk")} == {1, 2}
        assert list(heard(follower).values()) == ["Now it is said."]
        assert heard(follower) == await spoken(dispatcher, root)


@requirement("S2-OB-10")
async def test_without_a_follower_no_piece_is_kept_or_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    async with asked(tmp_path, reply(text(LONG))) as (dispatcher, root):
        monkeypatch.setattr(dispatcher.services.recorder.streams, "gather", lambda *piece: told.append(piece))
        monkeypatch.setattr(dispatcher.services.bus, "publish_unstored", told.append)
        with anyio.fail_after(5):
            ended = await dispatcher.wait(root)
        assert (ended.status, told) == ("completed", [])
