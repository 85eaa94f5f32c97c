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

from db.store.engine import sqlite_library
from tests.faults.crash.brigade import ALONE, CAMPAIGN, CONFIG, CONFIGS, HAPPENINGS, HOLDER, LEAD, PATROL, ROOT, label_of
from tests.faults.crash.expedition import COURIER, MARSHAL
from tests.faults.crash.history import OPEN, History, acknowledged, violations
from tests.faults.crash.ledger import Stage
from tests.faults.crash.scene import GONE, Client, Scene, at_rest, scene
from tests.faults.crash.voyage import ADMIRAL
from tests.support.tracing import strace

Kind = Literal["tree", "tool", "stop", "again", "together", "birth", "sync", "plan", "plan-sync", "nest"]
"""Killed at any moment; inside a tool that must not run twice; while it is being cancelled; once more while it recovers;
with two that take over; at a certain write to the disk, while the database is made or while the tree works; a plan, at any
moment or at a certain write; and five levels that nest."""

SYNCS = "fsync,fdatasync"
TRACER = ("-f", "-qq", "-o", "/dev/null", "-e", f"trace={SYNCS}", "-e")
"""Counts, for each thread, the calls by which SQLite makes something durable; all of a database's birth are one thread's,
and all of its later life another's."""

LONGEST_DELAY = 0.012
"""Seconds after a happening within which the kill falls: about what lies between one and the next."""
START_SECONDS = 0.3
"""A kill before the first happening falls within so much of the start."""
STOP_SECONDS = 0.04
"""A kill of what is being cancelled falls within so much of the wish: about how long it takes to come true."""
CHAINS, MESSAGES, ANSWERED = 0.3, 0.3, 0.5
"""How many of the trees are chains, how many are told something meanwhile, and how many wishes are acknowledged."""
PLANS, CHATS, AGAIN, TOGETHER = 0.4, 0.5, 0.2, 0.2
"""How many of those that are stopped are plans; how many plans are a user's, killed once more, or taken over by two."""
PATIENCE = 100.0


@dataclass(frozen=True, slots=True)
class Plan:
    """When to kill."""

    kind: Kind
    seed: int
    fresh: bool
    """Whether every process starts as the console script does."""
    after: int
    """How many requests and tool runs before the kill, or before the wish to cancel; or which write to the disk."""
    delay: float
    agent: str
    message_after: int | None = None
    """When to tell the root something, if at all: how many requests and tool runs before."""
    answered: bool = False
    """Whether the kill waits until the wish to cancel is acknowledged."""
    again: bool = False
    """Whether it is killed once more while it recovers."""
    heirs: int = 1
    """How many processes take over at the same time."""

    @property
    def write(self) -> int | None:
        """At which write to the disk it is killed, if at one."""
        return self.after if self.kind in ("birth", "sync", "plan-sync") else None

    @classmethod
    def of(cls, kind: Kind, seed: int, *, fresh: bool = False) -> Plan:
        """What a seed decides."""
        dice = random.Random(f"{kind} {seed}")
        if kind in ("birth", "sync", "plan-sync"):
            return cls(kind, seed, fresh, after=seed, delay=0.0, agent=MARSHAL if kind == "plan-sync" else PATROL)
        if kind == "tool":
            return cls(kind, seed, fresh, after=2, delay=dice.uniform(0, LONGEST_DELAY), agent=HOLDER)
        agent = CAMPAIGN if dice.random() < CHAINS else LEAD
        if kind == "plan" or (kind == "stop" and dice.random() < PLANS):
            agent = COURIER if dice.random() < CHATS else MARSHAL
        if kind == "nest":
            agent = ADMIRAL
        message = dice.randrange(1, HAPPENINGS[agent] // 2) if dice.random() < MESSAGES else None
        if kind == "stop":
            after = dice.randrange(1, ALONE[agent])
            return cls(kind, seed, fresh, after, dice.uniform(0, STOP_SECONDS), agent, answered=dice.random() < ANSWERED)
        after = dice.randrange(HAPPENINGS[agent] + 1)
        delay = dice.uniform(0, LONGEST_DELAY if after else START_SECONDS)
        again, heirs = kind == "again", 1 + (kind == "together")
        if kind in ("plan", "nest"):
            again, heirs = dice.random() < AGAIN, 1 + (dice.random() < TOGETHER)
        return cls(kind, seed, fresh, after, delay, agent, message, again=again, heirs=heirs)


@dataclass(frozen=True, slots=True)
class Finding:
    """What a trial showed."""

    kind: Kind
    seed: int
    fresh: bool
    agent: str
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

    @classmethod
    def of_failure(cls, plan: Plan, error: Exception) -> Finding:
        """Of a trial that did not come to its end, such as one in which a process hung."""
        told = {"course": [repr(each) for each in causes(error)]}
        return cls(plan.kind, plan.seed, plan.fresh, plan.agent, 0.0, 0, 0, 0, 0, 0, "", None, survived=False, broken=told)

    @property
    def held(self) -> bool:
        """Whether every promise was kept."""
        return not self.broken


def causes(error: BaseException) -> list[BaseException]:
    """What is in a group of errors, and in the groups in it."""
    return (
        [each for part in error.exceptions for each in causes(part)] if isinstance(error, BaseExceptionGroup) else [error]
    )


async def pause(seconds: float) -> None:
    """Let so much time go by."""
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()


async def kill_after(here: Scene, client: Client, happenings: int, delay: float) -> None:
    """Kill the client's server some time after so many things happened, or when the tree has ended."""
    if happenings:
        await until_happened(here, happenings)
    await kill(here, client, delay)


async def kill(here: Scene, client: Client, delay: float) -> None:
    """Kill the client's server some time from now; note what was open."""
    await pause(delay)
    client.process.kill()
    await client.process.wait()
    note_kill(here)


async def until_happened(here: Scene, happenings: int) -> None:
    """Wait until so many things happened from now, or a tree has ended."""
    ledger, before = here.ledger, here.ledger.happenings
    results = len(list(ledger.of("result", "ok")))
    await ledger.until(lambda: ledger.happenings >= before + happenings or len(list(ledger.of("result", "ok"))) > results)


def note_kill(here: Scene) -> None:
    """Write down what the rows say after a kill."""
    known = here.rows("select * from executions") if _has_tables(here) else []
    opened = [row for row in known if row["status"] in OPEN]
    ended = [row for row in known if row["status"] not in OPEN]
    replies = here.rows(_REPLIES) if opened else []
    cut = here.rows(_CUT) if opened else []
    here.ledger.add(
        "kill",
        "ok",
        open={row["id"]: row["attempt"] for row in opened},
        ended=[label_of(row) for row in ended],
        replies={label_of(row): row["n"] for row in replies},
        cut=[row["id"] for row in cut],
    )


_REPLIES = """
    select executions.*, count(*) as n from messages join executions on executions.id = messages.execution_id
    where kind = 'reply' group by executions.id"""
_CUT = """
    select tool_calls.id from tool_calls join executions on executions.id = tool_calls.execution_id
    where tool_calls.status = 'started' and effect = 'at_most_once' and server = 'field'
      and executions.status in ('pending', 'running')"""


def _has_tables(here: Scene) -> bool:
    """Whether there is anything to read: not while a journal must be rolled back, which is the next process's work."""
    try:
        return bool(here.rows("select 1 from sqlite_master where name = 'tool_calls'"))
    except sqlite_library().OperationalError:
        return False


@asynccontextmanager
async def living(here: Scene, plan: Plan, under: Sequence[str] = ()) -> AsyncIterator[Client]:
    """A client that dispatches the tree, speaks to it, waits for its result and leaves, as long as its server lives."""

    async def live(client: Client) -> None:
        with suppress(*GONE):
            execution = await client.dispatch(plan.agent, ROOT)
            if plan.kind == "stop":
                await until_happened(here, plan.after)
                await client.cancel(ROOT, execution)
            elif plan.message_after is not None and not list(here.ledger.of("message", "invoke")):
                await until_happened(here, plan.message_after)
                await client.say(ROOT, execution, f"note {plan.seed}")
            await client.result(ROOT, execution)
            if under:
                await client.leave()

    async with here.client(fresh=plan.fresh, under=under) as client, anyio.create_task_group() as group:
        group.start_soon(live, client, name="a client's life")
        yield client
        group.cancel_scope.cancel()


async def take_over(here: Scene, plan: Plan) -> dict[str, Any]:
    """Let one process, or two at the same time, finish what was left; what the client of the first hears in the end."""
    found: dict[str, Any] = {}

    async def finish(first: bool) -> None:
        async with here.client(fresh=plan.fresh) as client:
            ended = await client.result(ROOT, await client.dispatch(plan.agent, ROOT))
            if first:
                found.update(ended)
            code = await client.leave()
            assert code == 0, f"exit code {code}"

    async with anyio.create_task_group() as group:
        for number in range(plan.heirs):
            group.start_soon(finish, number == 0, name=f"take over {number}")
    return found


async def run(plan: Plan, folder: Path) -> Finding:
    """Carry a plan out in an empty folder."""
    began = time.monotonic()
    async with scene(folder, CONFIGS.get(plan.agent, CONFIG)) as here:
        with anyio.fail_after(PATIENCE):
            code = await _first_life(plan, here)
            if plan.again:
                async with living(here, plan) as client:
                    await kill_after(here, client, plan.after // 4, plan.delay)
            ended = await take_over(here, plan)
            here.ledger.add("rest", "ok", processes=await at_rest(here))
        here.ledger.save(folder / "ledger.jsonl")
        return _finding(plan, here, ended, survived=code == 0, seconds=time.monotonic() - began)


async def _first_life(plan: Plan, here: Scene) -> int:
    """Start the tree and see its process killed; its exit code."""
    if plan.kind in ("sync", "plan-sync"):
        async with here.client() as client:  # the database is there when the tracer begins to count
            await client.greet()
            await client.leave()
    traced = plan.write is not None
    under = (strace(), *TRACER, f"inject={SYNCS}:signal=SIGKILL:when={plan.write}") if traced else ()
    async with living(here, plan, under) as client:
        if plan.kind == "stop":
            stage: Stage = "ok" if plan.answered else "invoke"
            await here.ledger.until(lambda: bool(list(here.ledger.of("cancel", stage))))
            await kill(here, client, plan.delay)
        elif not traced:
            await kill_after(here, client, plan.after, plan.delay)
        code = await client.process.wait()
        if traced:
            note_kill(here)
        return code


def _finding(plan: Plan, here: Scene, ended: dict[str, Any], *, survived: bool, seconds: float) -> Finding:
    history = History(here.database, here.ledger.entries, plan.agent)
    kills, entries = list(here.ledger.of("kill", "ok")), here.ledger.entries
    before = entries[: entries.index(kills[-1])]
    interrupted = {execution: attempt for entry in kills for execution, attempt in entry.more["open"].items()}
    resumed = [each for each in interrupted if history.executions[each]["attempt"] > interrupted[each]]
    unknown = history.sql("select id from tool_calls where status = 'unknown'")
    return Finding(
        kind=plan.kind,
        seed=plan.seed,
        fresh=plan.fresh,
        agent=plan.agent,
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
