"""Adoption: whoever serves takes over what processes that are gone left open, and goes on with it.

Owns finding it and starting it again from the top; what goes on below is each execution's own resumption. Whether a process
lives is known by its lock and not by a clock, so nothing waits for a heartbeat; the change of owner is one guarded UPDATE,
so of several processes that adopt at once each execution gets exactly one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from db.adoption import Inheritance
from db.owners import is_alive
from db.reads import Record
from db.status import ExecutionStatus
from runner import facts
from runner.editions import Editions
from runner.execution import Execution
from runner.habitat import Habitat
from runner.past import Legacy
from runner.resumption import inherit

log = logging.getLogger("outrider.adoption")


class Adoption:
    """Takes over trees for one service; `start` gives an execution its task."""

    def __init__(self, habitat: Habitat, editions: Editions, start: Callable[[Execution], None]) -> None:
        self._habitat, self._editions, self._start = habitat, editions, start

    async def adopt(self, root: str | None = None) -> list[Execution]:
        """Take over what is open and has no process, of one tree or of all; the top-level executions that go on."""
        database = self._habitat.services.database
        owners = await database.reads.open_owners(root)
        adopted: list[Execution] = []
        for gone in sorted(owner for owner in owners if owner != database.owner and not is_alive(database.path, owner)):
            inheritance = Inheritance(gone, database.owner, root)
            rows = (await self._habitat.services.recorder.record(facts.Adopted(inheritance))).touched
            adopted += [await self._go_on(row) for row in _tops([dict(row._mapping) for row in rows])]
        if adopted:
            log.info("%d top-level executions of processes that are gone go on here", len(adopted))
        return adopted

    async def _go_on(self, row: Record) -> Execution:
        legacy, habitat, unfit = Legacy(row["root_execution_id"]), self._habitat, None
        try:
            habitat = await self._editions.habitat(row["config_hash"])
        except Exception as error:  # whatever it is: the others must not wait for this one
            log.info("execution %s cannot go on as it was configured", row["id"], exc_info=True)
            unfit = f"its configuration cannot be had again: {error}"
        execution = inherit(habitat, row, legacy, unfit=unfit)
        self._start(execution)
        return execution


def _tops(rows: Sequence[Record]) -> list[Record]:
    """The top-level ones: those at work before those that wait, older ones first."""
    tops = [row for row in rows if row["parent_execution_id"] is None]
    return sorted(tops, key=lambda row: (row["status"] != ExecutionStatus.RUNNING, row["id"]))
