"""`outrider serve` starts on what a killed process left: how soon it is ready, how soon it goes on, and that it finishes.

Owns: the moments that are timed, and what must be true in the end. Must not know: what is made of the figures.
Invariant: times begin with the process. A fresh process imports first; a forked one has imported everything, the SDK of the
model too, so its times are those after imports, and nothing has to be subtracted or believed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.faults.crash.history import INVARIANTS, History
from tests.faults.crash.scene import rows_of
from tests.faults.crash.victim import victim
from tests.faults.recovery.wreck import DATABASE, configure
from tests.support.forked import KEPT
from tests.support.messages_api import Answer, MessagesApi, Received, messages_api, mute, reply, text
from tests.support.wire import LEGACY, StdioWire, peak

CALLS = 200
"""Model calls in flight at once: more would need more sockets than a process has by default."""
SIBLINGS = 5
"""Agents of one parent that run at once: the limit as it is built in."""
PATIENCE = 900.0
CHECKED = ("file", "I2", "I3", "I4", "I7", "I9", "I10")


@dataclass(frozen=True, slots=True)
class Recovered:
    """One start, in seconds from the start of the process."""

    fresh: bool
    roots: int
    """Top-level executions that may run at once."""
    ready: float
    """Until a request that needs the service is answered."""
    called: float
    """Until the first resumed model call is at the model server."""
    gone_on: int
    """How many executions had gone on by then."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of it all when the model answers."""

    completed: int
    seconds: float
    megabytes: int
    """The most memory the process had."""
    broken: list[str]


class Attention:
    """Answers for the model, always the same, and notes when it was first asked."""

    def __init__(self, database: Path, answer: Answer) -> None:
        self._database, self._answer = database, answer
        self.called = 0.0
        self.gone_on = 0

    def answer(self, _: Received) -> Answer:
        """What is said to everybody."""
        if not self.called:
            self.called = time.monotonic()
            self.gone_on = int(rows_of(self._database, GONE_ON)[0]["n"])
        return self._answer


@dataclass(frozen=True)
class Started:
    """A process that goes on with what another left."""

    wire: StdioWire
    api: MessagesApi
    attention: Attention
    since: float
    ready: float


@asynccontextmanager
async def _started(wreck: Path, folder: Path, answer: Answer, roots: int, *, fresh: bool) -> AsyncIterator[Started]:
    shutil.copytree(wreck, folder)
    configure(folder, max_concurrent_roots=roots, max_concurrent_model_calls=CALLS)
    attention = Attention(folder / DATABASE, answer)
    async with messages_api(attention.answer) as api:
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        told = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": api.url, "HOME": str(folder)}
        environ = {**kept, **told, "OUTRIDER_DATABASE_URL": f"sqlite:///{folder / DATABASE}"}
        if not fresh:
            async with victim(["--version"], folder, environ) as process:
                await process.wait()  # by now whoever forks has imported
        since = time.monotonic()
        async with victim(["serve"], folder, environ, fresh=fresh) as process:
            wire = StdioWire(process, LEGACY)
            await wire.greet()
            await wire.call("list_executions", {"limit": 1})
            yield Started(wire, api, attention, since, time.monotonic() - since)


async def start(wreck: Path, folder: Path, roots: int, *, fresh: bool) -> Recovered:
    """Start on a copy of what was left, until a model is asked; nobody is answered, and the process is killed."""
    with anyio.fail_after(PATIENCE):
        async with _started(wreck, folder, mute(), roots, fresh=fresh) as started:
            await started.api.arrived(1)
            called, gone_on = started.attention.called - started.since, started.attention.gone_on
            return Recovered(fresh, roots, started.ready, called, gone_on)


async def finish(wreck: Path, folder: Path, roots: int, executions: int) -> Finished:
    """Start on a copy of what was left, and let all of it come to its end."""
    [last] = rows_of(wreck / DATABASE, "select max(seq) as seq from events")
    with anyio.fail_after(PATIENCE):
        async with _started(wreck, folder, reply(text("done")), roots, fresh=False) as started:
            await _none_runs(started.wire)
            seconds, megabytes = time.monotonic() - started.since, peak(started.wire.process.pid) // 1024
            await started.wire.close()
            requests, connections = len(started.api.requests), started.api.connections
    history = History(folder / DATABASE)
    broken = [f"{name}: {each}" for name in CHECKED for each in INVARIANTS[name](history)[:3]]
    broken += _over(history, roots, last["seq"])
    if requests != executions:
        broken.append(f"{executions} executions waited for a model, which was asked {requests} times")
    if connections > CALLS:
        broken.append(f"{connections} model calls at once")
    resumed = [row for row in history.executions.values() if (row["status"], row["attempt"]) == ("completed", 2)]
    return Finished(len(resumed), seconds, megabytes, broken)


async def _none_runs(wire: StdioWire) -> None:
    """Wait for the end of one that runs until there is none."""
    while True:
        answer = await wire.call("list_executions", {"status": "running", "limit": 1})
        if not (found := answer["result"]["structuredContent"]["executions"]):
            return
        await wire.call("get_result", {"execution_id": found[0]["execution_id"], "wait_seconds": 25})


def _over(history: History, roots: int, after: int) -> list[str]:
    """Limits that were gone over: how many ran at once, told by the events since the start."""
    running, most = dict[str | None, set[str]](), Counter[str | None]()
    for row in history.sql(STATUSES.format(after=after)):
        siblings = running.setdefault(row["parent_execution_id"], set())
        (siblings.add if row["status"] == "running" else siblings.discard)(row["execution_id"])
        most[row["parent_execution_id"]] = max(most[row["parent_execution_id"]], len(siblings))
    over = [f"{count} agents of {parent} at once" for parent, count in most.items() if parent and count > SIBLINGS]
    return over + ([f"{most[None]} top-level executions at once"] if most[None] > roots else [])


GONE_ON = "select count(*) as n from events where type = 'execution.status' and payload ->> 'resumed'"
STATUSES = """
    select execution_id, parent_execution_id, payload ->> 'status' as status from events
    where type = 'execution.status' and seq > {after} order by seq"""
