"""The work whose calls are counted: model turns, tool calls, dispatches, MCP requests, and agents that wait.

Owns: the work, and where its marks are set. Must not know: any limit. Invariant: each scenario repeats one unit of work, so
that what is done once (imports, caches, connections) is over before the units that count.

A turn goes through the real adapter to a fake model in another process. Dispatches and MCP requests have a scripted model
in this process, so that no answer comes early or late.
"""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from bench import lookup
from bench.contest import MODEL
from bench.processes import fake_model
from registry import AgentSpec, load
from runner.llm.protocol import Request
from runner.messages import Tool, ToolCall
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from runner.tools.protocol import ToolResult
from server.app import Blueprint, open_service
from server.mcp_face.server import mcp_server
from server.messages import message_of
from tests.costs.counting import Calling
from tests.support.face import face
from tests.support.models import Turn, call, say
from tests.support.service import bench
from tests.support.wire import introduction

TURNS, WARM_TURNS = 30, 9
"""The cost of a turn depends on the length of the conversation: these turns are measured, and no others."""
TREES, WARM_TREES = 13, 4
REQUESTS, WARM_REQUESTS = 20, 5
FEW, MANY = 2, 6
"""Dispatched agents of a tree: half of the difference between the trees is the cost of one more."""
SOME_WAITING, MORE_WAITING = 10, 30


class Lookup:
    """A `ToolExecutor` that sets a mark at the first of its calls in each turn."""

    def __init__(self, mark: Callable[[], None], calls: int) -> None:
        self._mark, self._calls = mark, calls
        label = "tests.lookup"
        self._tool = Tool("lookup", lookup.DESCRIPTION, lookup.SCHEMA, label=label, server="bench", effect="read_only")

    async def list_tools(self) -> list[Tool]:
        return [self._tool]

    async def call(self, asked: ToolCall) -> ToolResult:
        key = str(asked.arguments["key"])
        if int(key.rpartition("-")[2]) % self._calls == 0:
            self._mark()
        return ToolResult(lookup.value_of(key))

    async def close(self) -> None:
        pass


@asynccontextmanager
async def live_service(folder: Path, url: str, *tools: Callable[[AgentSpec], Any]) -> AsyncIterator[Dispatcher]:
    """A service whose agent `worker` asks the fake model at this address."""
    worker = {"description": "looks up keys", "max_iterations": TURNS + 10}
    config = {
        "models": {"fake": {"model": MODEL, "base_url": url, "max_tokens": 1024}},
        "agents": {"worker": worker},
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")
    environ = {"ANTHROPIC_API_KEY": "fake"}
    async with open_service(Blueprint(load(file), folder / "costs.db", environ=environ, extra_tools=tools)) as dispatcher:
        yield dispatcher


async def turns(calling: Calling, folder: Path, url: str, calls: int) -> None:
    """One agent: a turn is from the first tool call of a reply to the first of the next."""
    async with live_service(folder, url, lambda _: Lookup(calling.mark, calls)) as dispatcher:
        started = await dispatcher.start(Order("worker", f"WORK id=7 turns={TURNS} calls={calls}"))
        ended = await dispatcher.wait(started.id)
        calling.end()
    assert ended.result is not None, ended.error
    assert ended.result.text == f"RESULT id=7 ok={TURNS * calls}", ended.result.text


CREW = "agents: {Lead: {sub_agents: [Scout], limits: {max_concurrent_agents: 9}}, Scout: {description: looks}}"


async def dispatches(calling: Calling, folder: Path, scouts: int) -> None:
    """Trees of one orchestrator, whose first reply dispatches agents that answer at once."""

    def lead(request: Request) -> Turn:
        text = "".join(str(message.content) for message in request.messages if message.role == "user")
        if len(request.messages) == 1:
            return sum((call("dispatch_agent", name="Scout", task=f"look {n}") for n in range(1, scouts)), _dispatch())
        return say("done" if text.count("all is clear") >= scouts else "I wait")

    async with bench(folder, CREW, {"Lead": lead, "Scout": lambda _: say("all is clear")}) as service:
        for _ in range(TREES):
            service.model.requests.clear()
            calling.mark()
            started = await service.dispatcher.start(Order("Lead", "look around"))
            ended = await service.dispatcher.wait(started.id)
            assert ended.result is not None, ended.error
            assert ended.result.text == "done", ended.result
            await service.dispatcher.services.database.writer.flush()
        calling.mark()
        calling.end()


def _dispatch() -> Turn:
    return call("dispatch_agent", name="Scout", task="look 0")


async def requests(calling: Calling, folder: Path, tool: str) -> None:
    """Requests of a client after the handshake: from the bytes of one to the bytes of its answer."""
    async with (
        face(folder, CREW, {"Scout": lambda _: say("all is clear")}) as opened,
        create_client_server_memory_streams() as ((answers, client), (incoming, outgoing)),
        anyio.create_task_group() as group,
    ):
        server = mcp_server(opened.service, opened.updates)
        group.start_soon(server.run, incoming, outgoing, server.create_initialization_options())

        async def ask(number: int, method: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
            await client.send(SessionMessage(message_of(json.dumps(asked).encode())))
            told = await answers.receive()
            assert isinstance(told, SessionMessage)
            answer: dict[str, Any] = json.loads(told.message.model_dump_json(by_alias=True, exclude_unset=True))
            assert not answer["result"].get("isError"), answer
            return answer

        await ask(0, "initialize", introduction())
        await client.send(SessionMessage(message_of(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')))
        ended = await opened.bench.run("Scout", "look")
        arguments = {"execution_id": ended.id} if tool == "get_result" else {}
        for number in range(1, REQUESTS + 1):
            calling.mark()
            await ask(number, "tools/call", {"name": tool, "arguments": arguments})
        calling.mark()
        calling.end()
        group.cancel_scope.cancel()


async def waiting(folder: Path) -> tuple[float, float]:
    """The blocks and bytes that one more agent keeps while it waits for the model."""
    seen: list[tuple[int, int]] = []
    with fake_model("--hold") as model:
        async with live_service(folder, model.url) as dispatcher:
            await dispatcher.services.prepared.wait()
            tracemalloc.start()  # not before: it slows down the imports
            started: list[str] = []
            for most in (SOME_WAITING, MORE_WAITING):
                while len(started) < most:
                    order = Order("worker", f"WORK id={len(started)} turns=1")
                    started.append((await dispatcher.start(order)).id)
                while (await anyio.to_thread.run_sync(model.stats))["held"] < most:
                    await anyio.lowlevel.checkpoint()
                await dispatcher.services.database.writer.flush()
                gc.collect()
                seen.append((sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]))
            for each in started:
                await dispatcher.cancel(each, by="tests", reason="measured")
    (few_blocks, few_bytes), (blocks, size) = seen
    agents = MORE_WAITING - SOME_WAITING
    return (blocks - few_blocks) / agents, (size - few_bytes) / agents
