"""The whole service with the real adapter, against a local server that speaks the Messages API over SSE."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from registry import AgentSpec
from runner.messages import Tool, ToolCall
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.tools.protocol import ToolExecutor, ToolResult
from server.app import Blueprint, open_service
from tests.support.messages_api import (
    Answer,
    MessagesApi,
    Received,
    cut,
    events_of,
    messages_api,
    refuse,
    reply,
    text,
    tool_use,
)
from tests.support.requirement import requirement
from tests.support.service import settings_of

CONFIG = """
models:
  m:
    model: claude-sonnet-5-5
    base_url: "{url}"
    price: {{input: 2, output: 10, cache_write: 3, cache_write_1h: 4}}
agents:
  Lead: {{sub_agents: [Scout]}}
  Scout: {{description: scouts}}
"""
ENVIRON = {"ANTHROPIC_API_KEY": "canary-key"}


class Meeting:
    """A tool that returns only when as many calls as expected are inside at once."""

    def __init__(self, size: int) -> None:
        self._size, self.inside, self._met = size, 0, anyio.Event()

    async def list_tools(self) -> Sequence[Tool]:
        return [Tool("meet", "meets", {"type": "object"}, label="meet", server="test")]

    async def call(self, call: ToolCall) -> ToolResult:
        self.inside += 1
        if self.inside == self._size:
            self._met.set()
        await self._met.wait()
        return ToolResult(f"met {call.arguments['who']}")

    async def close(self) -> None:
        return


@asynccontextmanager
async def service(folder: Path, api: MessagesApi, *tools: ToolExecutor) -> AsyncIterator[Dispatcher]:
    settings = settings_of(folder, CONFIG.format(url=api.url))

    def offer(tool: ToolExecutor) -> Callable[[AgentSpec], ToolExecutor]:
        return lambda _agent: tool

    blueprint = Blueprint(settings, folder / "x.db", environ=ENVIRON, extra_tools=[offer(tool) for tool in tools])
    async with open_service(blueprint) as dispatcher:
        yield dispatcher


@requirement("S2-CT-6")
async def test_the_tool_calls_of_one_turn_overlap_and_are_answered_in_their_order(tmp_path: Path) -> None:
    calls = [tool_use("meet", {"who": who}, f"toolu_{who}") for who in ("a", "b", "c")]
    async with messages_api(reply(*calls), reply(text("all met"))) as api, service(tmp_path, api, Meeting(3)) as dispatcher:
        started = await dispatcher.start(Order("Scout", "meet"))
        with anyio.fail_after(5):
            ended = await dispatcher.wait(started.id)
        assert ended.result is not None
        assert ended.result.text == "all met"
        answers = api.requests[1].body["messages"][-1]["content"]
        assert [(block["tool_use_id"], block["content"]) for block in answers] == [
            ("toolu_a", "met a"),
            ("toolu_b", "met b"),
            ("toolu_c", "met c"),
        ]


@requirement("S2-CA-2", "S2-CA-3")
async def test_cancelling_closes_the_http_requests_of_the_whole_tree_within_100_ms(tmp_path: Path) -> None:
    never = anyio.Event()

    def answer(received: Received) -> Answer:
        first = received.body["messages"][0]["content"][0]["text"]
        if first == "lead" and len(received.body["messages"]) == 1:
            return reply(*(tool_use("dispatch_agent", {"name": "Scout", "task": "scout"}, f"t{n}") for n in range(3)))
        return reply(text("thinking about it"), gate=never, gate_after=2)

    async with messages_api(answer) as api, service(tmp_path, api) as dispatcher:
        started = await dispatcher.start(Order("Lead", "lead"))
        with anyio.fail_after(5):
            await api.arrived(5)
            await dispatcher.cancel(started.id, "a person", "enough")
        before = anyio.current_time()
        with anyio.fail_after(5):
            for received in api.requests[1:]:
                await received.closed.wait()
        assert anyio.current_time() - before < 0.1
        ended = await dispatcher.wait(started.id)
        assert ended.status == "cancelled"
        assert len(api.requests) == 5


async def test_who_dispatches_is_cached_for_an_hour_and_each_lifetime_has_its_price(tmp_path: Path) -> None:
    written = {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 3_000}
    counted = {"input_tokens": 0, "cache_creation_input_tokens": 4_000, "cache_creation": written}

    def answer(received: Received) -> Answer:
        messages = received.body["messages"]
        if messages[0]["content"][0]["text"] == "lead" and len(messages) == 1:
            return Answer(events=events_of([tool_use("dispatch_agent", {"name": "Scout", "task": "scout"})], counted))
        return Answer(events=events_of([text("done")], counted))

    async with messages_api(answer) as api, service(tmp_path, api) as dispatcher:
        started = await dispatcher.start(Order("Lead", "lead"))
        with anyio.fail_after(5):
            await dispatcher.wait(started.id)
        rows = await dispatcher.services.database.reads.model_calls(started.id)
        lifetimes = {
            received.body["messages"][0]["content"][0]["text"]: received.body["cache_control"].get("ttl")
            for received in api.requests
        }
    assert lifetimes == {"lead": "1h", "scout": None}
    assert {(row["cache_write_tokens"], row["cache_write_1h_tokens"], row["pricing"]) for row in rows} == {
        (4_000, 3_000, "priced")
    }
    assert {round(row["cost_usd"] * 1e6) for row in rows} == {42 * 10 + 1_000 * 3 + 3_000 * 4}


async def test_what_a_void_attempt_had_said_is_told_apart_from_what_counts(tmp_path: Path) -> None:
    whole = reply(text("one two three four five"))
    heard: list[tuple[str, Any]] = []
    async with (
        messages_api(cut(whole, 5), whole) as api,
        service(tmp_path, api) as dispatcher,
        dispatcher.services.bus.watch() as events,
    ):
        started = await dispatcher.start(Order("Scout", "scout"))
        with anyio.fail_after(10):
            await dispatcher.wait(started.id)
            while (event := await events.receive())["type"] != "timeline_event.completed":
                payload = json.loads(event["payload"])
                if event["type"] in ("stream.chunk", "model.attempt"):
                    heard.append((event["type"], (payload["attempt"], payload.get("text"))))
    assert [each for kind, each in heard if kind == "model.attempt"] == [(2, None)]
    said = [each for kind, each in heard if kind == "stream.chunk"]
    assert "".join(piece for attempt, piece in said if attempt == 1) == "one two three "
    assert "".join(piece for attempt, piece in said if attempt == 2) == "one two three four five"


@requirement("S2-LE-16")
async def test_what_a_provider_says_in_an_error_never_enters_a_prompt(tmp_path: Path) -> None:
    def answer(received: Received) -> Answer:
        messages = received.body["messages"]
        if messages[0]["content"][0]["text"] == "scout":
            return refuse(400, "invalid_request_error", "CANARY from the provider")
        if len(messages) == 1:
            return reply(tool_use("dispatch_agent", {"name": "Scout", "task": "scout"}))
        return reply(text("noted"))

    async with messages_api(answer) as api, service(tmp_path, api) as dispatcher:
        started = await dispatcher.start(Order("Lead", "lead"))
        with anyio.fail_after(5):
            ended = await dispatcher.wait(started.id)
        assert ended.status == "completed"
        assert not any(b"CANARY" in received.raw for received in api.requests)
        assert any(b"Scout" in received.raw and b'state=\\"failed\\"' in received.raw for received in api.requests)
