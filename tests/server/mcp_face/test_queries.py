"""SQL of clients: whatever they ask, the service answers others at once and holds no more than it hands out."""

import gc
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from db.query.gate import AT_ONCE, OF_ONE_CALLER, WAITING
from server.mcp_face.query_tools import MOST_BYTES
from tests.support.face import Caller, face, text_of
from tests.support.figures import FIGURES, tell
from tests.support.requirement import requirement

CONFIG = "agents: {Quick: {description: answers}}"
ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r"
NUMBERS = "with recursive r(n) as (select 1 union all select n + 1 from r limit {rows})"

WANTED = int(os.environ.get("OUTRIDER_QUERIES", "16"))
QUIET = FIGURES in os.environ
"""Whether the machine is quiet, as `make faults` wants it. On a busy one only what the loop itself computed is lag."""
LAG_SECONDS, GROWTH_BYTES, NEIGHBOUR_SECONDS = 0.05, 64 * 1024 * 1024, 0.2


def hostile(chance: random.Random) -> str:
    """A query that asks for too much of something."""
    size = chance.choice([100, 5_000, 200_000, 15_000_000])
    return chance.choice(
        [
            "select " + ", ".join(["1 as n"] * chance.choice([500, 2_000])),
            "select " + ", ".join(f"{number} as {chance.choice('nm')}_{number % 7}" for number in range(1_500)),
            f'select 1 as "{"x" * chance.choice([10, 15_000])}", * from ' + NUMBERS.format(rows=300)[5:] + ", r",
            NUMBERS.format(rows=chance.choice([200, 10_000, 10_000_000])) + " select n, n, n, n from r",
            NUMBERS.format(rows=50) + f" select printf('%.*c', {size}, char(1)) as v from r",
            NUMBERS.format(rows=200) + f" select replace(printf('%.*c', {size}, 'x'), 'x', char(34)) as v from r",
            NUMBERS.format(rows=20) + f" select cast(printf('%.*c', {size}, 'é') as blob) as v from r",
            NUMBERS.format(rows=2_000_000) + " select n, n * n from r order by 2 desc",
            ENDLESS if chance.random() < 0.1 else "select group_concat(name) from sqlite_master, sqlite_master",
        ]
    ).replace("* from r(n)", "n from r")


async def answered(caller: Caller, sql: str) -> dict[str, Any] | None:
    """The rows, or None for a refusal in words; both within their bounds."""
    result = await caller.client.call_tool("query_executions", {"sql": sql})
    text = text_of(result)
    if result.is_error:
        assert text.startswith("error: ")
        assert "\nhint: " in text
        assert len(text) < 2_000
        return None
    assert len(text.encode()) < MOST_BYTES + 1_000
    found: dict[str, Any] = result.structured_content
    return found


async def rest(seconds: float) -> None:
    """Give the loop to others for a while."""
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()


class Watch:
    """How late the event loop is, how long a neighbour's calls take, and how large the process grows."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self.waits: list[float] = []
        gc.collect()
        self._before = psutil.Process().memory_info().rss
        self.peak = 0

    async def mind_the_loop(self) -> None:
        while True:
            due, computed = time.monotonic() + 0.005, time.thread_time()
            await rest(0.005)
            late = time.monotonic() - due
            self.lags.append(late if QUIET else min(late, time.thread_time() - computed))
            self.peak = max(self.peak, psutil.Process().memory_info().rss - self._before)

    async def be_a_neighbour(self, caller: Caller) -> None:
        while True:
            begun = time.monotonic()
            await caller.call("list_executions")
            self.waits.append(time.monotonic() - begun)
            await rest(0.02)


@pytest.mark.timeout(600)
@requirement("S2-DB-16")
async def test_hostile_queries_hold_neither_the_loop_nor_its_memory_nor_a_neighbour(tmp_path: Path) -> None:
    chance = random.Random(os.environ.get("OUTRIDER_SEED", "16"))
    queries = [hostile(chance) for _ in range(WANTED)]

    async with (
        face(tmp_path, CONFIG, {}) as opened,
        opened.client(within=600) as caller,
        opened.client(within=600) as neighbour,
    ):
        await answered(caller, "select 1")
        watch = Watch()
        async with anyio.create_task_group() as group:
            group.start_soon(watch.mind_the_loop)
            group.start_soon(watch.be_a_neighbour, neighbour)
            for first in range(0, len(queries), OF_ONE_CALLER + WAITING):
                async with anyio.create_task_group() as some:
                    for sql in queries[first : first + OF_ONE_CALLER + WAITING]:
                        some.start_soon(answered, caller, sql)
            group.cancel_scope.cancel()

    assert watch.waits
    lag = sorted(watch.lags)[int(len(watch.lags) * 0.99)]
    tell(queries=WANTED, lag=lag, growth=watch.peak, neighbour=max(watch.waits))
    assert lag < LAG_SECONDS
    assert watch.peak < GROWTH_BYTES
    assert not QUIET or max(watch.waits) < NEIGHBOUR_SECONDS


def children() -> Iterator[psutil.Process]:
    """The processes of queries."""
    for each in psutil.Process().children():
        try:
            if any(word.endswith("query_process.py") for word in each.cmdline()):
                yield each
        except psutil.NoSuchProcess:
            continue


async def until(condition: Callable[[], object]) -> None:
    """Wait for something outside this process."""
    for _ in range(2_000):
        if condition():
            return
        await rest(0.01)
    raise TimeoutError


@requirement("S2-DB-16")
async def test_a_caller_has_a_few_queries_at_once_and_the_rest_wait_or_are_refused(tmp_path: Path) -> None:
    refused = []

    async def ask(caller: Caller) -> None:
        result = await caller.client.call_tool("query_executions", {"sql": ENDLESS})
        refused.append(text_of(result))

    with anyio.fail_after(30):
        async with face(tmp_path, CONFIG, {}) as opened, opened.client() as caller, opened.client() as neighbour:
            async with anyio.create_task_group() as group:
                for _ in range(40):
                    group.start_soon(ask, caller)
                most = 40 - OF_ONE_CALLER - WAITING
                await until(lambda: len(refused) >= most and list(children()))
                assert len(list(children())) <= OF_ONE_CALLER < AT_ONCE
                await neighbour.call("list_executions")
                group.cancel_scope.cancel()  # the client goes: its queries go with it
            await until(lambda: not list(children()))
            assert await answered(caller, "select 1 as n")

    assert all("10 queries of this caller run or wait already" in text for text in refused)
    assert all("hint: try again when one of them has ended" in text for text in refused)


async def test_two_thousand_columns_of_one_name_are_told_apart(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client() as caller:
        found = await answered(caller, "select " + ", ".join(["1 as n"] * 1_900) + ", 2 as n_2")

    assert found is not None
    [row] = found["rows"]
    assert (len(row), row["n"], row["n_2"], row["n_3"], row["n_1901"]) == (1_901, 1, 2, 1, 1)
    assert found["columns"] == list(row)


async def test_rows_that_do_not_fit_are_left_out_and_the_answer_says_so(tmp_path: Path) -> None:
    many = NUMBERS.format(rows=100) + " select printf('%.*c', 3000, char(1)) as v from r"
    async with face(tmp_path, CONFIG, {}) as opened, opened.client() as caller:
        found = await answered(caller, many)
        none = await answered(caller, "select printf('%.*c', 200000, 'x') as long")

    assert none is None
    assert found is not None
    assert (len(found["rows"]), found["truncated"]) == (5, True)
    assert len(json.dumps(found["rows"], separators=(",", ":"))) < MOST_BYTES
