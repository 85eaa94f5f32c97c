"""Steering: what somebody outside says to an execution while it works, in whichever process that is.

Owns the way of a message or a wish to conclude into an inbox. Rows come first, as for everything: a process that runs the
execution finds them there; this one puts them into the inbox at once when it runs it itself. One that runs nothing, such
as a command, has no live executions to look for.
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
from runner.core import facts
from runner.core.cancel import cancel_from_outside
from runner.core.execution import Execution
from runner.core.inbox import Item
from runner.core.recorder import Recorder

NOT_BEGUN = "asked to wrap up before it started"

Cancel = Callable[[str, str, str], Awaitable[str]]
"""Stops an execution, for somebody and a reason."""


def steering_from_outside(database: Database, recorder: Recorder) -> Steering:
    """For a process that runs nothing itself."""
    return Steering(database, recorder, partial(cancel_from_outside, database, recorder))


class Steering:
    """Reaches into executions from outside."""

    def __init__(
        self,
        database: Database,
        recorder: Recorder,
        cancel: Cancel,
        live: Callable[[str], Execution | None] = lambda _: None,
    ) -> None:
        self._database, self._recorder, self._cancel, self._live = database, recorder, cancel, live

    async def send(self, execution: str, text: str, by: str) -> bool:
        """Say something to an execution; False when nobody would read it. Raises UnknownExecution."""
        row = await self._row(execution)
        if row["finished_at"] is not None:
            return False
        return await self._post(row, Item(new_id(), "message", text, by=by))

    async def ask_to_wrap_up(self, execution: str, by: str) -> str:
        """Let it answer with what it has: `requested` or `already_finished`. What has not begun is cancelled.

        One that lost its process concludes when somebody goes on with it.
        """
        row = await self._row(execution)
        if row["finished_at"] is not None:
            return "already_finished"
        if row["status"] == ExecutionStatus.PENDING:
            return await self._cancel(execution, by, NOT_BEGUN)
        if await self._database.reads.asked_to_wrap_up(execution):
            return "requested"  # once is enough: each wish costs a conclusion
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
