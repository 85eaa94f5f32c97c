"""Wherever a crash cuts a transcript, it goes on with a request that the Messages API accepts.

Talks by chance are recorded commit by commit; the database is cut after some of these, and another service goes on with
everything that was open then, and with some of what had ended. `OUTRIDER_PREFIXES` says how many different beginnings of a
transcript are tried, `OUTRIDER_SEED` repeats a run.
"""

import os
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.faults.crash.scene import rows_of
from tests.faults.crash.seeds import SEED
from tests.properties.verdicts import PROMISES
from tests.runner.strategies.loop.random_talk import AGENTS, CARRIED_OUT, CONFIG, Talk, tools
from tests.support.service import OneModel, settings_of
from tests.support.write_ahead_log import Recording, unfolded

PREFIXES = int(os.environ.get("OUTRIDER_PREFIXES", "150"))
TALKS = 50
"""That are recorded together."""
CUTS = 12
"""Of one recording."""
TWICE = 0.3
"""How many of what goes on is cut once more."""
CONTINUED = 0.4
"""How many of them go on when they have ended."""

STATES = """
    select executions.id, count(distinct messages.id) as said, count(distinct tool_calls.id) as settled,
      count(distinct deliveries.id) as consumed
    from executions
    left join messages on messages.execution_id = executions.id
    left join tool_calls on tool_calls.execution_id = executions.id and tool_calls.finished_at is not null
    left join deliveries on deliveries.execution_id = executions.id and deliveries.consumed_at is not null
    group by executions.id"""
"""How far each execution had come: two of them alike have the same beginning of a transcript."""

HOLDS = (
    "every execution has ended",
    "every execution has exactly one terminal event",
    "every child has exactly one delivery, in its parent's inbox",
    "one that completed has read everything",
    "no report is shown twice, nor one that was read before",
    "every tool call has its result",
    "whatever began in a timeline ended, once",
    "own totals are the sums of the calls",
)


@asynccontextmanager
async def service(folder: Path, talk: Talk) -> AsyncIterator[Dispatcher]:
    """A service in which everybody talks by chance."""
    blueprint = Blueprint(settings_of(folder, CONFIG), folder / "outrider.db", models=OneModel(talk), extra_tools=tools())
    async with open_service(blueprint) as dispatcher:
        with unfolded(blueprint.database):
            talk.dispatcher = dispatcher
            yield dispatcher


async def record(folder: Path, seed: str) -> Recording:
    """Let some talk, and some of them go on when they have ended."""
    dice = random.Random(seed)
    async with service(folder, Talk(seed)) as dispatcher:

        async def talk(number: int) -> None:
            ended = await dispatcher.wait((await dispatcher.start(Order(dice.choice(AGENTS), f"talk {number}"))).id)
            if dice.random() < CONTINUED:
                await dispatcher.wait((await dispatcher.resume(ended.id, "and then?")).id)

        async with anyio.create_task_group() as group:
            for number in range(TALKS):
                group.start_soon(talk, number, name=f"talk {number}")
        (folder / "copy").mkdir()
        return await Recording.of(folder / "outrider.db", folder / "copy")


@dataclass
class Tried:
    """What was tried so far."""

    prefixes: set[tuple[object, ...]] = field(default_factory=set)
    """The beginnings of transcripts from which a model was asked."""
    wrong: list[str] = field(default_factory=list)

    async def cut(self, recording: Recording, end: int, seed: str) -> Recording:
        """Go on from one moment of a recording; how that went, to be cut once more."""
        with tempfile.TemporaryDirectory() as name:
            folder, copy = Path(name), Path(name) / "copy"
            copy.mkdir()
            database = recording.cut(folder, end)
            states = {row["id"]: tuple(row.values()) for row in rows_of(database, STATES)}
            ended = [row["id"] for row in rows_of(database, "select id from executions where finished_at is not null")]
            talk = Talk(f"{seed} {end}", patience=0.5)
            async with service(folder, talk) as dispatcher:
                await dispatcher.adopt()
                for execution in random.Random(f"{seed} {end}").sample(ended, min(3, len(ended))):
                    await dispatcher.resume(execution, "and then?")
                for execution in list(dispatcher.tree):
                    await execution.done.wait()
                later = await Recording.of(database, copy)
            self.prefixes |= {states[each] for each in talk.asked if each in states}
            broken = [f"{each}: {rows}" for each in HOLDS if (rows := rows_of(database, PROMISES[each]))]
            broken += map(str, rows_of(database, "select * from tool_calls where result like ?", f"%{CARRIED_OUT}%"))
            self.wrong += [f"seed {seed}, cut at {end}: {each}" for each in (*talk.wrong, *broken)]
            return later


async def test_a_transcript_cut_anywhere_becomes_a_request_that_the_api_accepts(tmp_path: Path) -> None:
    tried, seed = Tried(), SEED
    while len(tried.prefixes) < PREFIXES and not tried.wrong:
        folder = tmp_path / str(seed)
        folder.mkdir()
        with anyio.fail_after(60):
            recording = await record(folder, str(seed))
        commits = recording.commits
        dice = random.Random(seed)
        early = commits[2 : len(commits) * 3 // 4]  # few are open at the end
        for end in dice.sample(early, min(CUTS, len(early))):
            with anyio.fail_after(60):
                later = await tried.cut(recording, end, str(seed))
                after = [each for each in later.commits if each > end]  # none before anybody talked
                if after and dice.random() < TWICE:
                    await tried.cut(later, dice.choice(after), f"{seed} again")
            if len(tried.prefixes) >= PREFIXES:
                break
        seed += 1

    assert tried.wrong == []
    assert len(tried.prefixes) >= PREFIXES
