"""Steering: messages and wrap-up requests from outside to a running execution, in any process.

Owns their way into an inbox. The row is committed first: the process that runs the execution polls for it, and if that is
this process the item also goes into the inbox immediately. A process without executions, such as a command, only writes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from db.database import Database
from db.errors import UnknownExecution
from db.ids import new_id
from db.rows.executions import Place
from db.rows.reads import Record
from db.status import ExecutionStatus
from runner.core.cancel import cancel_from_outside
from runner.core.execution import Execution
from runner.core.inbox import Item
from runner.record import facts
from runner.record.recorder import Recorder

NOT_BEGUN = "asked to wrap up before it started"

Cancel = Callable[[str, str, str], Awaitable[str]]
"""Cancels an execution: id, requester, reason."""


def steering_from_outside(database: Database, recorder: Recorder) -> Steering:
    """Steering for a process that runs no executions."""
    return Steering(database, recorder, partial(cancel_from_outside, database, recorder))


class Steering:
    """Sends messages and wrap-up requests to executions."""

    def __init__(
        self,
        database: Database,
        recorder: Recorder,
        cancel: Cancel,
        live: Callable[[str], Execution | None] = lambda _: None,
    ) -> None:
        self._database, self._recorder, self._cancel, self._live = database, recorder, cancel, live

    async def send(self, execution: str, text: str, by: str) -> bool:
        """Send a message; False when the execution has ended or is being cancelled. Raises UnknownExecution."""
        row = await self._row(execution)
        if row["finished_at"] is not None:
            return False
        return await self._post(row, Item(new_id(), "message", text, by=by))

    async def ask_to_wrap_up(self, execution: str, by: str) -> str:
        """Request a wrap-up: `requested` or `already_finished`. A pending execution is cancelled instead.

        An interrupted execution concludes when it is resumed.
        """
        row = await self._row(execution)
        if row["finished_at"] is not None:
            return "already_finished"
        if row["status"] == ExecutionStatus.PENDING:
            return await self._cancel(execution, by, NOT_BEGUN)
        if await self._database.reads.asked_to_wrap_up(execution):
            return "requested"  # one request is enough: each costs a conclusion
        if await self._post(row, Item(new_id(), "wrap_up")):
            return "requested"
        row = await self._row(execution)
        return "already_finished" if row["finished_at"] is not None else "requested"

    async def _row(self, execution: str) -> Record:
        row = await self._database.reads.execution(execution)
        if row is None:
            raise UnknownExecution(execution)
        return row

    async def _post(self, row: Record, item: Item) -> bool:
        live = self._live(row["id"])
        if live is not None:
            return await live.take(item, patient=False)
        place = Place(row["id"], row["parent_execution_id"], row["root_execution_id"], row["session_id"])
        posted = facts.Posted(place, item.id, item.kind, item.payload)
        return (await self._recorder.record(posted, patient=False)).held
