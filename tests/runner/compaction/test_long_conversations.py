"""Conversations that outgrow the window of their model: room is made, and nothing is lost that the work needs."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio

from db.ids import PATTERN
from runner.service.order import Order
from runner.snapshot import Snapshot
from server.app import Blueprint, open_service
from tests.faults.crash.scene import rows_of
from tests.runner.compaction.marathon import KEY, REPORT, TASK, Marathon, called, turn_of
from tests.support.local_tools import LocalTools
from tests.support.messages_api import messages_api, tool_use
from tests.support.models import ScriptedModel
from tests.support.servers import raw_server
from tests.support.service import Bench, settings_of
from tests.support.sources import ROOT
from tests.support.write_ahead_log import Recording, unfolded

CONFIG = """
models:
  m: {{model: m, base_url: "{url}", max_tokens: 500, context_window: {window}}}
mcp_servers: {{box: {box}}}
agents:
  Lead: {{sub_agents: [Scout], mcp_servers: {servers}, limits: {{max_iterations: 400}}}}
  Scout: {{description: scouts}}
"""
ENVIRON = {"ANTHROPIC_API_KEY": "canary-key"}
MIGRATIONS = len({file.name[:4] for file in (ROOT / "db" / "migrations").glob("[0-9]*.sql")})
"""The first commits of a database."""


def upstream(turn: int) -> dict[str, Any]:
    """A call of a real server."""
    return tool_use("box__poke", {"turn": turn}, called(turn))


def local(turn: int) -> dict[str, Any]:
    """A call of a tool in this process."""
    return tool_use("look", {"turn": turn}, called(turn))


async def _look(arguments: Mapping[str, Any]) -> str:
    return f"{arguments['turn']}: " + "x" * 900 + (KEY if arguments["turn"] == 3 else "")


@asynccontextmanager
async def service(folder: Path, config: str) -> AsyncIterator[Bench]:
    """A service whose models are asked over HTTP."""
    tools = LocalTools({"look": _look}, effect="read_only").for_agents("Lead")
    blueprint = Blueprint(settings_of(folder, config), folder / "outrider.db", environ=ENVIRON, extra_tools=tools)
    async with open_service(blueprint) as dispatcher:
        yield Bench(dispatcher, ScriptedModel({}), blueprint.database)


async def finished(bench: Bench) -> Snapshot:
    """The agent, once it has come to its end."""
    started = await bench.dispatcher.start(Order("Lead", TASK))
    with anyio.fail_after(60):
        return await bench.dispatcher.wait(started.id)


def compactions(bench: Bench) -> list[dict[str, Any]]:
    """What watchers were told of them."""
    rows = bench.sql("select payload from events where type = 'context.compacted' order by seq")
    return [json.loads(row["payload"]) for row in rows]


async def test_an_agent_of_two_hundred_turns_stays_inside_its_window_and_knows_what_it_needs(tmp_path: Path) -> None:
    marathon = Marathon(upstream, window=12_000)
    async with messages_api(marathon.answer) as api:
        config = CONFIG.format(url=api.url, window=12_000, box=raw_server("long"), servers="[box]")
        async with service(tmp_path, config) as bench:
            ended = await finished(bench)
            [child] = bench.sql("select id from executions where agent = 'Scout'")
            told = compactions(bench)
            [calls] = bench.sql("select count(*) as made from model_calls where execution_id = ?", ended.id)

    assert marathon.wrong == []  # not too long, and accepted by the API
    assert ended.result is not None
    assert ended.result.text == f"{KEY}, as {called(3)} shows"
    assert calls["made"] == len(marathon.requests) == 200 + marathon.asked_for_summary

    bodies = [received.body for received in marathon.requests]
    assert all(body["messages"][0]["content"][0]["text"] == TASK for body in bodies)
    later = [body for body in bodies if turn_of(body) > 3]
    assert all(called(3) in json.dumps(body["messages"]) for body in later)
    assert all(child["id"] in json.dumps(body["messages"]) for body in later)
    assert REPORT in json.dumps(bodies[-1]["messages"]) or child["id"] in json.dumps(bodies[-1]["messages"])

    assert {each["stage"] for each in told} == {"results", "summary"}
    assert all(each["after_tokens"] < 0.8 * each["before_tokens"] for each in told)
    kept = sum(after["messages"][: len(before["messages"])] == before["messages"] for before, after in pairwise(bodies))
    assert kept >= len(bodies) - 1 - len(told) - marathon.asked_for_summary  # what is cached stays so in between


def moments(recording: Recording) -> list[int]:
    """Some moments of its life: one in a while, and each at which the last thing that was written made room."""
    commits = recording.commits[MIGRATIONS + 1 : -20]
    last = "select kind from messages where execution_id = (select min(id) from executions) order by position desc limit 1"
    made_room: list[int] = []
    with tempfile.TemporaryDirectory() as name:
        for end in commits:
            [row] = rows_of(recording.cut(Path(name), end), last)
            made_room += [end] if row["kind"] in ("compaction", "summary") else []
    assert made_room
    return [*commits[:: len(commits) // 4], *made_room]


def nameless(raw: bytes) -> bytes:
    """A request without the ids of executions: one that was wanted and had no row yet is started under another."""
    return re.sub(PATTERN.pattern.encode(), b"somebody", raw)


async def test_wherever_a_crash_cuts_it_the_next_request_is_the_one_it_would_have_made(tmp_path: Path) -> None:
    marathon = Marathon(local, window=7_000, turns=50, child_until=45)
    async with messages_api(marathon.answer) as api:
        config = CONFIG.format(url=api.url, window=7_000, box=raw_server("long"), servers="[]")
        async with service(tmp_path, config) as bench:
            (tmp_path / "copy").mkdir()
            with unfolded(bench.database):
                await finished(bench)
                recording = await Recording.of(bench.database, tmp_path / "copy")
            stages = {each["stage"] for each in compactions(bench)}
        made = {nameless(received.raw) for received in marathon.requests}
        marathon.silent = True
        assert (marathon.wrong, stages) == ([], {"results", "summary"})
        for end in moments(recording):
            with tempfile.TemporaryDirectory() as name:
                recording.cut(Path(name), end)
                before = len(marathon.requests)
                async with service(Path(name), config) as bench:
                    await bench.dispatcher.adopt()
                    with anyio.fail_after(10):
                        while len(marathon.requests) == before:
                            await api.arrived(len(api.requests) + 1)
                assert nameless(marathon.requests[-1].raw) in made
