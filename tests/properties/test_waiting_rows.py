"""Rows say that a person is waited for exactly while a question is undecided, whatever happens to it, in any order.

`OUTRIDER_WALKS` says how many orders are tried; a failure names the seed that repeats them.
"""

from __future__ import annotations

import os
import random
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import anyio
import anyio.lowlevel

from db.clock import moment, stamp
from db.store.engine import sqlite_library
from runner.service.order import Order
from tests.runner.strategies.plan.planned import config, plan, step
from tests.support.gated import NO, YES, asked, decide, deleting
from tests.support.models import call, say
from tests.support.service import Bench, bench

WALKS = int(os.environ.get("OUTRIDER_WALKS", "10"))
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or random.SystemRandom().randrange(2**32)
CONFIG = config("max_concurrent: 2") + "\n  Worker: {description: works}\n"
STEPS = plan(step("step_1", "A", "look"), step("step_2", "B", "delete", requiresConfirmation=True))
CALLS = call("delete", what="one") + call("delete", what="two") + call("delete", what="three")
SCRIPTS = {"Planner": [STEPS], "A": [say("a")], "B": [say("b")], "Composer": [say("done")]}
LATER = {"Worker": [say("done")], "B": [say("b")], "Composer": [say("done")]}

STALE = """
    select id, agent, status, waiting_for, asked from (
        select e.*, exists(
            select 1 from approvals a where a.decision is null
            and (a.execution_id = e.id or a.tool_call_id = e.parent_execution_id || '.' || e.step_id)
        ) as asked from executions e
    ) where (coalesce(waiting_for, '') = 'approval') != (asked and finished_at is null)
"""


class Walk:
    """One tree with three calls that must be allowed, or one with a step, and what happens to its questions."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._dice, self.happened = folder, random.Random(seed), [f"seed {seed}"]
        self._planned = self._dice.random() < 0.3
        self._root, self._left_open = "", list[tuple[object, ...]]()

    async def run(self) -> None:
        """Until nothing is asked any more."""
        while not self._root or self._undecided():
            with anyio.CancelScope() as process:  # the task that opened the service may be cancelled, as by a signal
                await self._serve(process)
            self._check("stopped")
            assert self._undecided() == self._left_open, self.happened
            self._while_gone()

    async def _serve(self, process: anyio.CancelScope) -> None:
        scripts = LATER if self._root else {**SCRIPTS, "Worker": [CALLS, say("done")]}
        async with bench(self._folder, CONFIG, scripts, deleting().for_agents("Worker")) as opened:
            with anyio.fail_after(20):
                if self._root:
                    await opened.dispatcher.adopt()
                    self._check("adopted")
                else:
                    started = await opened.dispatcher.start(Order("Assistant" if self._planned else "Worker", "go"))
                    self._root = started.id
                    await asked(opened, 1 if self._planned else 3)
                await self._live(opened, self._root)
            self._left_open = self._undecided()
            if self._dice.random() < 0.5:
                self.happened.append("cut")
                process.cancel()
                with anyio.CancelScope(shield=True):
                    for _ in range(5):  # something else is closed before the service is
                        await anyio.lowlevel.checkpoint()

    async def _live(self, opened: Bench, root: str) -> None:
        while opened.dispatcher.tree.get(root) is not None and self._undecided():
            deed = self._dice.choice(["yes", "no", "yes", "no", "stop", "conclude", "cancel"])
            if deed == "stop":
                return
            if deed in ("yes", "no"):
                question = self._dice.choice(await asked(opened))
                await decide(opened, question, YES if deed == "yes" else NO)
            elif deed == "conclude":
                await opened.dispatcher.ask_to_wrap_up(root)
            else:
                await opened.dispatcher.cancel(root, "Ada", "enough")
            self._check(deed)
            if deed in ("conclude", "cancel"):
                await opened.dispatcher.wait(root)
        await opened.dispatcher.wait(root)
        assert self._undecided() == [], self.happened
        self._check("ended")

    def _while_gone(self) -> None:
        """A question may expire, or be answered, while no process runs its execution."""
        if self._dice.random() < 0.3:
            past = stamp(moment(stamp()) - timedelta(seconds=1))
            with closing(sqlite_library().connect(self._folder / "outrider.db")) as connection, connection:
                connection.execute("update approvals set expires_at = ? where decision is null", (past,))
            self.happened.append("expired")

    def _undecided(self) -> list[tuple[object, ...]]:
        return self._rows("select id, expires_at from approvals where decision is null order by id")

    def _check(self, deed: str) -> None:
        self.happened.append(deed)
        assert self._rows(STALE) == [], self.happened

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        with closing(sqlite_library().connect(self._folder / "outrider.db")) as connection:
            return list(connection.execute(query))


async def test_rows_say_that_a_person_is_waited_for_exactly_while_one_is_asked(tmp_path: Path) -> None:
    for number in range(WALKS):
        folder = tmp_path / str(number)
        folder.mkdir()
        await Walk(folder, SEED + number).run()
