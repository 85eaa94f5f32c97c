"""Takeover: a serving process adopts the open trees of dead processes and resumes them.

Owns finding them and restarting their roots; below, each execution restores itself (`runner/resume/restore.py`). A process
is alive while it holds its lock, so no heartbeat and no clock is involved. The change of owner is one guarded UPDATE, so of
several adopting processes exactly one gets an execution. Ten thousand trees change owner at once and are restarted a few at
a time, so they do not block new orders.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from db.errors import StoreError
from db.rows.adoption import Takeover
from db.rows.endings import CancelWish
from db.rows.interrupted import Need
from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import Settings
from runner.core.cancel import wish_to_cancel
from runner.core.execution import Environment, Execution
from runner.core.history import TreeUsage, name_of
from runner.core.views import gone_owners
from runner.record import facts
from runner.resume.configs import Configurations
from runner.resume.readiness import Lack, Readiness, listed
from runner.resume.restore import resumed
from runner.users.users import Users

log = logging.getLogger("outrider.adoption")

Found = TypeVar("Found")

AT_A_TIME = 20
"""Roots restored per read: a few milliseconds of work."""
PATIENCE_SECONDS = 1.0
"""Delay before a failed read is retried; without the retry an adopted tree would never start."""


class Adopter:
    """Takes over trees for one service; `start` runs an execution in the service's task group."""

    def __init__(
        self, environment: Environment, editions: Configurations, people: Users, start: Callable[[Execution], None]
    ) -> None:
        self._environment, self._configurations, self._people, self._start = environment, editions, people, start
        services = environment.services
        self._here = Readiness(services.environ, services.database.reads.snapshot, self._settings, services.asks_environ)
        self._here.know(services.settings)
        self._told: set[str] = set()
        """Trees already logged as left alone."""
        self._left_as: frozenset[tuple[str, int, int]] = frozenset()
        """Fingerprint of the dead owners' rows when no more of them could be taken over."""

    async def take_over(self, root: str | None = None) -> list[str]:
        """Make this process the owner of interrupted executions, of one tree or of all; the roots, in order of restart.

        A tree this process cannot run is left for another one. A tree with a cancel request needs nothing to end.
        """
        database, recorder = self._environment.services.database, self._environment.services.recorder
        gone = await gone_owners(database, root)
        if not gone or await self._is_settled(gone, root):
            return []
        left = await self._unfit(gone, root)
        for wish in await database.reads.interrupted.cancelled(gone, root) if left else ():
            if wish.root in left:
                await wish_to_cancel(database, recorder, CancelWish(wish.root, wish.by, wish.reason, gone))
        tops: list[str] = []
        for owner in gone:
            rows = (await recorder.record(facts.Adopted(Takeover(owner, database.owner, root, left)))).touched
            tops += _tops([row._mapping for row in rows])
        if tops:
            log.info("%d roots of dead processes are resumed here", len(tops))
        if left and root is None:
            self._left_as = await database.reads.interrupted.fingerprint(gone)
        return tops

    async def lacks(self, root: str) -> tuple[Lack, ...]:
        """The needs of an interrupted tree that this process lacks; none if it runs elsewhere or a cancel is requested."""
        database = self._environment.services.database
        gone, interrupted = await gone_owners(database, root), database.reads.interrupted
        if not gone or await interrupted.cancelled(gone, root):
            return ()
        return await self._here.lacks(await interrupted.needs(gone, root))

    async def lacks_to_continue(self, row: Record, settings: Settings) -> tuple[Lack, ...]:
        """What this process lacks to continue an ended execution: a rehearsal does not replace a real model."""
        calls = await self._environment.services.database.reads.model_calls(row["id"])
        asked = any(not call["rehearsed"] for call in calls)
        need = Need(settings.hash, name_of(row), row["strategy"], None, is_root=True, asked=asked)
        return self._here.lacks_of_models(settings, need) if asked else ()

    async def _settings(self, config_hash: str, _body: str) -> Settings:
        return (await self._configurations.environment(config_hash)).services.settings

    async def _is_settled(self, gone: Sequence[str], root: str | None) -> bool:
        """Whether the remaining rows are unchanged since they could not be taken over: then they still cannot."""
        if root is not None or not self._left_as:
            return False
        return await self._environment.services.database.reads.interrupted.fingerprint(gone) == self._left_as

    async def _unfit(self, gone: Sequence[str], root: str | None) -> list[str]:
        """The trees this process cannot run. Needs are checked together first, and per tree only if one is lacking."""
        interrupted = self._environment.services.database.reads.interrupted
        if not await self._here.lacks(await interrupted.needs(gone, root)):
            return []
        left: dict[tuple[Lack, ...], list[str]] = {}
        for tree, needs in (await interrupted.needs_by_tree(gone, root)).items():
            if lacks := await self._here.lacks(needs):
                left.setdefault(lacks, []).append(tree)
        for lacks, trees in left.items():
            if new := [tree for tree in trees if tree not in self._told]:
                log.warning("%d interrupted trees are not resumed: they need %s: %s", len(new), listed(lacks), new[0])
                self._told.update(new)
        return [tree for trees in left.values() for tree in trees]

    async def go_on(self, tops: Sequence[str]) -> list[Execution]:
        """Restart the adopted roots, once models are ready: thousands at once would delay that preparation."""
        started: list[Execution] = []
        if tops:
            await self._environment.services.prepared.wait()
        for first in range(0, len(tops), AT_A_TIME):
            if self._environment.services.shutdown.stopping:
                break  # the next process finds the rest
            some = partial(self._environment.services.database.reads.those, tops[first : first + AT_A_TIME])
            started += [await self._go_on(row) for row in await self._read(some)]
        return started

    async def _read(self, read: Callable[[], Awaitable[Found]]) -> Found:
        while True:
            try:
                return await read()
            except StoreError as error:
                log.error("adopted executions cannot be read yet: %s", error)
            await anyio.sleep(PATIENCE_SECONDS)

    async def _go_on(self, row: Record) -> Execution:
        user = await self._read(partial(self._people.of, row))
        legacy, environment, unfit = TreeUsage(row["root_execution_id"], user), self._environment, None
        try:
            environment = await self._configurations.environment(row["config_hash"])
        except Exception as error:  # one broken configuration must not block the other trees
            log.info("execution %s cannot be resumed with its configuration", row["id"], exc_info=True)
            unfit = f"its configuration cannot be restored: {error}"
        execution = resumed(environment, row, legacy, unfit=unfit)
        self._start(execution)
        return execution


def _tops(rows: Sequence[Record]) -> list[str]:
    """The roots: running before pending, oldest first."""
    tops = [row for row in rows if row["parent_execution_id"] is None]
    return [row["id"] for row in sorted(tops, key=lambda row: (row["status"] != ExecutionStatus.RUNNING, row["id"]))]
