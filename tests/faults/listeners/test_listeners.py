"""Sixty listeners, of whom six do not read. With `make faults`, a thousand listen to a process, and it is timed."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import anyio
import psutil

from server.api.feed import Feed
from tests.faults.listeners.account import EVENTS, Account
from tests.faults.listeners.scene import crowd
from tests.support.api_serving import ApiOptions, ServedApi, served_api
from tests.support.models import call, gate, say

CONFIG = """
models: {m: {model: none}}
defaults: {limits: {max_concurrent_roots: 20}}
agents:
  Lead: {description: sends others, sub_agents: [Worker], max_iterations: 20}
  Worker: {description: works}
"""
TREES, WORKERS = 4, 3
LISTENERS, STALLED = 60, 6
LONG, LONG_ONES = 100_000, 10
"""Texts of models that fill the buffers of a connection."""
TIME = 30.0


def mixed(roots: Sequence[str], workers: Sequence[str]) -> list[tuple[str, bool]]:
    """Streams of all trees, of each and of parts; those that do not read have the first two."""
    dice, found = random.Random(1), list[tuple[str, bool]]()
    for number in range(LISTENERS):
        reads = number >= STALLED
        tops = roots if number % 2 or not reads else workers
        path = "/api/events?after=0" if number % 5 == 0 else f"/api/executions/{dice.choice(tops)}/events"
        found.append((path, reads))
    return [(path if reads or "events?" in path else f"/api/executions/{roots[0]}/events", reads) for path, reads in found]


async def test_each_listener_hears_every_event_once_also_one_that_was_dropped_because_it_did_not_read(
    tmp_path: Path,
) -> None:
    opened, me = anyio.Event(), psutil.Process(os.getpid())
    dispatches = [call("dispatch_agent", name="Worker", task=f"task {number}") for number in range(WORKERS)]
    scripts = {
        "Lead": [sum(dispatches[1:], dispatches[0]), say("all are done"), say("all are done")],
        "Worker": [gate(opened, say("done"))],
    }
    options = ApiOptions(feed=Feed(stalled=0.5))
    with anyio.fail_after(TIME):
        async with (
            served_api(tmp_path, CONFIG, scripts, options) as api,
            api.client() as client,
            crowd(api.url, tmp_path) as them,
        ):
            for _ in range(TREES):
                await client.post("/api/executions", 201, name="Lead", task="go")
            await api.bench.until(lambda: api.bench.statuses().get("Worker") == ["running"] * TREES * WORKERS)
            rows = api.bench.sql("select id, depth from executions order by id")
            roots, workers = ([row["id"] for row in rows if row["depth"] == depth] for depth in (0, 1))
            before = len(me.net_connections("tcp"))
            await them.listen(mixed(roots, workers))
            say_at_length(api)
            dropped = await them.dropped(STALLED, TIME)
            opened.set()
            await api.bench.until(lambda: api.bench.statuses()["Lead"] == ["completed"] * TREES)
            account = Account(api.bench.sql(EVENTS))
            await them.order(until=account.last)
            await them.order(**{"return": account.last})
            heard = await them.heard()
            await them.close()
            while len(me.net_connections("tcp")) > before:
                with anyio.move_on_after(0.02):
                    await anyio.sleep_forever()

    assert dropped
    assert account.faults(heard) == []
    assert [each.cuts for each in heard if not each.reads] == [1] * STALLED
    assert sum(len(each.numbers) for each in heard) > LISTENERS * WORKERS


def say_at_length(api: ServedApi) -> None:
    """What the models of all trees say while they work, which is in no row."""
    tops = "select * from events where execution_id = root_execution_id group by root_execution_id"
    for row in api.bench.sql(tops):
        for _ in range(LONG_ONES):
            said = {**row, "seq": None, "type": "stream.chunk", "payload": f'"{"x" * LONG}"'}
            api.bench.dispatcher.services.bus.publish_unstored(said)
