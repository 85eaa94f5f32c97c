"""Malformed messages and arguments: nothing breaks, nothing of the inside is told, every refusal names the field.

`OUTRIDER_FUZZ` sets how many are tried (`make fuzz`: 100,000), `OUTRIDER_SEED` repeats a run.
"""

import json
import os
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from server.mcp_face.server import mcp_server
from server.messages import NotAMessage, message_of
from tests.server.mcp_face.fuzz import Frame, Fuzz, judge
from tests.support.face import face
from tests.support.models import say
from tests.support.shell import make_shell
from tests.support.wire import ERAS, LEGACY, StdioWire, introduction, over_http, over_stdio, peak, request, served_over_http

COUNT = int(os.environ.get("OUTRIDER_FUZZ", "2000"))
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or secrets.randbelow(10**9)
PORTION = 100
"""Frames on their way at once, and between two looks whether the service still answers."""
GROWTH = 128 * 1024
"""Kilobytes the process may grow by: a few of the longest lines, however many there were."""

SIMPLE = re.compile(r"[\w/-]{1,100}", re.ASCII)

ERA = pytest.mark.parametrize("era", ERAS)
CONFIG = """
agents: {Left: {description: looks left}}
agent_chains: {look: {alert_types: [Slow], stages: [{name: all, agents: [Left]}]}}
"""


class InProcess:
    """A server before streams in memory: what a transport would have read, without a process."""

    def __init__(
        self, send: MemoryObjectSendStream[SessionMessage | Exception], receive: MemoryObjectReceiveStream[SessionMessage]
    ) -> None:
        self._send, self._receive = send, receive

    async def ask(self, data: bytes) -> dict[str, Any]:
        """The answer to one line."""
        try:
            message = message_of(data)
        except NotAMessage as error:
            return error.refusal.model_dump(by_alias=True, exclude_unset=True)
        await self._send.send(SessionMessage(message))
        while isinstance(message, t.JSONRPCRequest):
            answer = (await self._receive.receive()).message.model_dump(by_alias=True, exclude_unset=True, mode="json")
            if answer.get("id") == message.id and "method" not in answer:
                return answer
        return {"result": {}}


@asynccontextmanager
async def in_process(folder: Path, era: str) -> AsyncIterator[tuple[InProcess, Fuzz]]:
    """A server with one ended execution, and a source of frames made from its tools."""
    async with face(folder, CONFIG, {"Left": [say("left")]}) as opened, anyio.create_task_group() as group:
        inward, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, outward = anyio.create_memory_object_stream[SessionMessage](1_000)
        server = mcp_server(opened.service, opened.updates)
        group.start_soon(server.run, incoming, outgoing, server.create_initialization_options(), name="server")
        carrier = InProcess(inward, outward)
        if era == LEGACY:
            await carrier.ask(json.dumps(request(1, "initialize", introduction(), era)).encode())
            await carrier.ask(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        listed = await carrier.ask(json.dumps(request(2, "tools/list", {}, era)).encode())
        done = await opened.bench.run("Left", "look")
        schemas = {tool["name"]: tool["inputSchema"] for tool in listed["result"]["tools"]}
        with inward, outward:
            yield carrier, Fuzz(SEED, schemas, era, [done.id], {"name": "Left", "chain": "look"})
        group.cancel_scope.cancel()


@ERA
async def test_wrong_arguments_are_refused_by_name_and_break_nothing(tmp_path: Path, era: str) -> None:
    async with in_process(tmp_path, era) as (carrier, source):
        for frame in source.frames(COUNT // 4):
            with anyio.fail_after(10):
                judge(frame, await carrier.ask(frame.data))
        good = request(1, "tools/call", {"name": "list_agents", "arguments": {}}, era)
        answer = await carrier.ask(json.dumps(good).encode())

    assert answer["result"]["structuredContent"]["agents"], f"seed {SEED}"


async def listen(wire: StdioWire, awaited: set[int], heard: list[dict[str, Any]]) -> None:
    """Gather what comes until all of these are answered."""
    while awaited:
        message = await wire.receive()
        if "method" not in message:
            heard.append(message)
            awaited.discard(message["id"])


async def portion(wire: StdioWire, frames: list[Frame], number: int) -> None:
    """Send frames as bytes, in pieces as they fall: every readable call is answered, and the good request behind them."""
    last = json.dumps(request(number, "tools/list", {}, wire.era)).encode()
    data = b"\n".join([*(frame.data for frame in frames), b"\r", b"", last, b""])
    calls = {frame.id: frame for frame in frames if frame.is_call}
    heard: list[dict[str, Any]] = []
    async with anyio.create_task_group() as group:
        group.start_soon(listen, wire, {*calls, number}, heard, name="listen")
        for start in range(0, len(data), 50_021):
            await wire.send(data[start : start + 50_021])
    for answer in heard:
        if answer["id"] != number:
            judge(calls.get(answer["id"], Frame(b"", 0)), answer)


@ERA
async def test_malformed_lines_to_a_process_never_end_it_or_make_it_grow(tmp_path: Path, era: str) -> None:
    async with over_stdio(make_shell(tmp_path), era) as wire:
        schemas = {tool["name"]: tool["inputSchema"] for tool in (await wire.ask("tools/list"))["result"]["tools"]}
        source = Fuzz(SEED, schemas, era, names={"name": "Quick", "chain": "look"})
        before = 0
        for number in range(COUNT // 4 // PORTION):
            frames = list(source.frames(PORTION))
            if number % 50 == 0:
                frames.insert(
                    5, Frame(b'{"method": "x", "params": {"id": 3, "x": "' + b"y" * 5_000_000 + b'"}, "id": 5}', 5)
                )
            with anyio.fail_after(30):
                await portion(wire, frames, 1_000_000 + number)
            before = before or peak(wire.process.pid)
        grown = peak(wire.process.pid) - before
        answer = await wire.call("list_agents", {})
        code = await wire.close()

    said = (tmp_path / "stderr").read_text(encoding="utf-8")
    assert answer["result"]["structuredContent"]["agents"], f"seed {SEED}"
    assert (code, "Traceback" in said) == (0, False), f"seed {SEED}: {said[-3_000:]}"
    assert grown < GROWTH, f"seed {SEED}"


@ERA
async def test_malformed_bodies_over_http_are_refused_in_the_same_words(tmp_path: Path, era: str) -> None:
    async with served_over_http(make_shell(tmp_path)) as (_, url), over_http(url, era) as wire:
        schemas = {tool["name"]: tool["inputSchema"] for tool in (await wire.ask("tools/list"))["result"]["tools"]}
        for frame in Fuzz(SEED, schemas, era).frames(COUNT // 20):
            with anyio.fail_after(10):
                response = await wire.post(frame.data, headers_for(frame, era))
            said = response.text.removeprefix("event: message").strip()
            if response.status_code == 202:
                assert said == ""
                continue
            answer = json.loads(said.removeprefix("data:"))
            # A header must repeat the name; where that is no name, none can.
            refused = answer.get("error", {}).get("code") == -32020
            judge(Frame(frame.data, 0) if refused else frame, answer)
            assert response.status_code < 500, f"seed {SEED}: {frame.data[:2_000]!r}"
        good = await wire.call("list_agents", {})

    assert good["result"]["structuredContent"]["agents"], f"seed {SEED}"


def headers_for(frame: Frame, era: str) -> dict[str, str]:
    """What a client would send with this body, as far as it can be told."""
    if era == LEGACY:
        return {}
    try:
        message = json.loads(frame.data)
        method, name = message["method"], message["params"]["name"]
    except (ValueError, RecursionError, KeyError, TypeError):
        method, name = "tools/call", ""
    told = {"mcp-protocol-version": era, "mcp-method": method, "mcp-name": name}
    return {header: value for header, value in told.items() if isinstance(value, str) and SIMPLE.fullmatch(value)}
