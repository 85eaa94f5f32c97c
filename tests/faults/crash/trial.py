"""One trial: a tree is started, its process is killed at a moment that the seed decides, another process takes over.

Owns: the plan of a trial and its course. Must not know: how many there are, or what is made of their findings.
Invariant: the seed decides everything that a trial decides.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio

from tests.faults.crash.brigade import HAPPENINGS, ROOT
from tests.faults.crash.history import OPEN, History, acknowledged, violations
from tests.faults.crash.scene import GONE, Client, Scene, at_rest, scene

Kind = Literal["tree", "tool", "again", "together", "birth", "sync"]
"""Killed at any moment; inside a tool that must not run twice; once more while it recovers; with two that take over; at a
certain write to the disk, while the database is made or while the tree works."""

SYNCS = "fsync,fdatasync"
TRACER = ("strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={SYNCS}", "-e")
"""Counts, for each thread, the calls by which SQLite makes something durable; all of a database's birth are one thread's,
and all of its later life another's."""

LONGEST_DELAY = 0.012
"""Seconds after a happening within which the kill falls: about what lies between one and the next."""
START_SECONDS = 0.3
"""A kill before the first happening falls within so much of the start."""
PATIENCE = 100.0


@dataclass(frozen=True, slots=True)
class Plan:
    """When to kill."""

    kind: Kind
    seed: int
    fresh: bool
    """Whether every process starts as the console script does."""
    after: int
    """How many requests and tool runs before the kill, or which write to the disk."""
    delay: float

    @classmethod
    def of(cls, kind: Kind, seed: int, *, fresh: bool = False) -> Plan:
        """What a seed decides."""
        dice = random.Random(f"{kind} {seed}")
        after = {"tool": 2, "birth": seed, "sync": seed}.get(kind) or dice.randrange(HAPPENINGS + 1)
        delay = dice.uniform(0, LONGEST_DELAY if after else START_SECONDS)
        return cls(kind, seed, fresh, after, delay)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a trial showed."""

    kind: Kind
    seed: int
    fresh: bool
    seconds: float
    turns: int
    """Acknowledged before a kill."""
    dispatches: int
    interrupted: int
    """Open when their process was killed."""
    resumed: int
    unknown: int
    """Tool calls recorded with an unknown outcome."""
    status: str
    text: str | None
    survived: bool
    """Nothing killed it: it never came to the chosen write."""
    broken: dict[str, list[str]]

    @property
    def held(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken


async def pause(seconds: float) -> None:
    """Let so much time go by."""
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()


async def kill_after(here: Scene, client: Client, happenings: int, delay: float) -> None:
    """Kill the client's server some time after so many things happened, or when the tree has ended; note what was open."""
    ledger, before = here.ledger, here.ledger.happenings
    results = len(list(ledger.of("result", "ok")))
    if happenings:
        await ledger.until(
            lambda: ledger.happenings >= before + happenings or len(list(ledger.of("result", "ok"))) > results
        )
    await pause(delay)
    client.process.kill()
    await client.process.wait()
    note_kill(here)


def note_kill(here: Scene) -> None:
    """Write down what the rows say after a kill."""
    marks = ", ".join(f"'{status}'" for status in OPEN)
    opened = here.rows(f"select id, attempt from executions where status in ({marks})") if _has_tables(here) else []
    replies = here.rows(_REPLIES) if opened else []
    cut = here.rows(_CUT) if opened else []
    here.ledger.add(
        "kill",
        "ok",
        open={row["id"]: row["attempt"] for row in opened},
        replies={row["task"]: row["n"] for row in replies},
        cut=[row["id"] for row in cut],
    )


_REPLIES = """
    select task, count(*) as n from messages join executions on executions.id = messages.execution_id
    where kind = 'reply' group by task"""
_CUT = """
    select tool_calls.id from tool_calls join executions on executions.id = tool_calls.execution_id
    where tool_calls.status = 'started' and effect = 'at_most_once' and server = 'field'
      and executions.status in ('pending', 'running')"""


def _has_tables(here: Scene) -> bool:
    return bool(here.rows("select 1 from sqlite_master where name = 'tool_calls'"))


@asynccontextmanager
async def living(here: Scene, agent: str, *, fresh: bool, under: Sequence[str] = ()) -> AsyncIterator[Client]:
    """A client that dispatches the tree, waits for its result and leaves, as long as its server lives."""

    async def live(client: Client) -> None:
        with suppress(*GONE):
            await client.result(ROOT, await client.dispatch(agent, ROOT))
            if under:
                await client.leave()

    async with here.client(fresh=fresh, under=under) as client, anyio.create_task_group() as group:
        group.start_soon(live, client, name="a client's life")
        yield client
        group.cancel_scope.cancel()


async def take_over(here: Scene, agent: str, *, fresh: bool, several: bool = False) -> dict[str, Any]:
    """Let one process, or two at the same time, finish what was left; what the client of the first hears in the end."""
    found: dict[str, Any] = {}

    async def finish(first: bool) -> None:
        async with here.client(fresh=fresh) as client:
            ended = await client.result(ROOT, await client.dispatch(agent, ROOT))
            if first:
                found.update(ended)
            code = await client.leave()
            assert code == 0, f"exit code {code}"

    async with anyio.create_task_group() as group:
        for number in range(2 if several else 1):
            group.start_soon(finish, number == 0, name=f"take over {number}")
    return found


async def run(plan: Plan, folder: Path) -> Finding:
    """Carry a plan out in an empty folder."""
    began, agent = time.monotonic(), {"tool": "Holder", "birth": "Patrol", "sync": "Patrol"}.get(plan.kind, "Lead")
    async with scene(folder) as here:
        with anyio.fail_after(PATIENCE):
            code = await _first_life(plan, here, agent)
            if plan.kind == "again":
                async with living(here, agent, fresh=plan.fresh) as client:
                    await kill_after(here, client, plan.after // 4, plan.delay)
            ended = await take_over(here, agent, fresh=plan.fresh, several=plan.kind == "together")
            here.ledger.add("rest", "ok", processes=await at_rest(here))
        here.ledger.save(folder / "ledger.jsonl")
        return _finding(plan, here, ended, survived=code == 0, seconds=time.monotonic() - began)


async def _first_life(plan: Plan, here: Scene, agent: str) -> int:
    """Start the tree and see its process killed; its exit code."""
    if plan.kind == "sync":
        async with here.client() as client:  # the database is there when the tracer begins to count
            await client.greet()
            await client.leave()
    traced = plan.kind in ("birth", "sync")
    under = (*TRACER, f"inject={SYNCS}:signal=SIGKILL:when={plan.after}") if traced else ()
    async with living(here, agent, fresh=plan.fresh, under=under) as client:
        if not traced:
            await kill_after(here, client, plan.after, plan.delay)
        code = await client.process.wait()
        if traced:
            note_kill(here)
        return code


def _finding(plan: Plan, here: Scene, ended: dict[str, Any], *, survived: bool, seconds: float) -> Finding:
    history = History(here.database, here.ledger.entries)
    kills, entries = list(here.ledger.of("kill", "ok")), here.ledger.entries
    before = entries[: entries.index(kills[-1])]
    interrupted = {execution: attempt for entry in kills for execution, attempt in entry.more["open"].items()}
    resumed = [each for each in interrupted if history.executions[each]["attempt"] > interrupted[each]]
    unknown = history.sql("select id from tool_calls where status = 'unknown'")
    return Finding(
        kind=plan.kind,
        seed=plan.seed,
        fresh=plan.fresh,
        seconds=round(seconds, 3),
        turns=sum(turns for turns, _ in acknowledged(before).values()),
        dispatches=len({entry.label for entry in before if entry.what == "turn" or entry.more.get("id")}),
        interrupted=len(interrupted),
        resumed=len(resumed),
        unknown=len(unknown),
        status=ended["status"],
        text=(ended["result"] or {}).get("output"),
        survived=survived,
        broken=violations(history),
    )
