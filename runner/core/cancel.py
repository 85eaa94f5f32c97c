"""Cancel, as two facts: a cancel request on every row of the subtree, then the cancel scopes.

The request is committed first, in one recursive UPDATE. From that commit on no execution below starts, because every start
is guarded by the request, and none can complete, because `completed` is guarded by it too. Rows without a task (pending, or
of a dead process) become `cancelled` in the same transaction. Only then are scopes cancelled: a spawn between the two facts
is refused by the guard on its row, so no task escapes. Each execution writes its own end with its partial output. One that
has not ended after the grace period is abandoned: the supervisor writes its end, so no caller waits for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup

from db.database import Database
from db.rows.endings import CancelWish
from db.rows.reads import Reads
from db.status import ExecutionStatus
from runner.chat import answer_of, language_for
from runner.core.execution import Execution
from runner.core.orphans import settle_orphans
from runner.core.services import Services
from runner.core.tree import Tree
from runner.core.verdict import Cause
from runner.core.views import gone_owners
from runner.record import facts
from runner.record.recorder import Recorder
from runner.text import language_of

log = logging.getLogger("outrider.cancellation")


class Canceller:
    """Cancels executions of any process."""

    def __init__(self, services: Services, tree: Tree[Execution], group: TaskGroup) -> None:
        self._services, self._tree, self._group = services, tree, group

    async def cancel(self, execution: str, by: str, reason: str, *, patient: bool = True) -> str:
        """Cancel a subtree: `requested`, or `already_finished` when nothing in it is open."""
        database = self._services.database
        # A tree lives in one process: if its top is here, no row below has another owner.
        gone = [] if self._tree.get(execution) is not None else await gone_owners(database, execution)
        live, wish = self._tree.get(execution), CancelWish(execution, by, reason, gone)
        language = language_for(live.request.task, live.origin.user) if live is not None else None
        answer = await wish_to_cancel(database, self._services.recorder, wish, language, patient=patient)
        if answer == "requested":
            self.stop_here(execution, Cause("user", by, reason))
        return answer

    def stop_here(self, execution: str, cause: Cause) -> None:
        """The second fact: cancel the scope, if the execution runs in this process."""
        top = self._tree.get(execution)
        if top is None or top.life.cause is not None:
            return
        doomed = list(self._tree.below(top))
        top.cancel(cause)
        self._group.start_soon(self._supervise, doomed, top.limits.cancel_grace, name=f"supervise {execution}")

    async def _supervise(self, doomed: Sequence[Execution], grace: float) -> None:
        with anyio.move_on_after(grace):
            for execution in doomed:
                await execution.done.wait()
        for execution in reversed(doomed):  # children before parents
            if not execution.done.is_set:
                log.warning("execution %s (%s) did not stop within %g s", execution.id, execution.name, grace)
                await execution.abandon()


async def _language_of(reads: Reads, execution: str) -> str:
    """The language for the user whose message an execution of another process was answering."""
    row = await reads.execution(execution)
    user = await reads.people.user(row["user_id"]) if row is not None and row["user_id"] is not None else None
    return language_of(row["task"] or "", user["locale"]) if row is not None and user is not None else "en"


async def cancel_from_outside(database: Database, recorder: Recorder, execution: str, by: str, reason: str) -> str:
    """Cancel a subtree from a process that runs no executions: `requested` or `already_finished`."""
    return await wish_to_cancel(
        database, recorder, CancelWish(execution, by, reason, await gone_owners(database, execution))
    )


async def wish_to_cancel(
    database: Database, recorder: Recorder, wish: CancelWish, language: str | None = None, *, patient: bool = False
) -> str:
    """Commit the first fact only. The process that runs the subtree sees it and cancels the scopes."""
    if language is None:
        language = await _language_of(database.reads, wish.execution)
    stopped = answer_of(wish.execution, ExecutionStatus.CANCELLED, None, language)
    asked = (await recorder.record(facts.CancelWished(wish, stopped), patient=patient)).touched
    if wish.gone_owners:
        await settle_orphans(database.reads, recorder, wish.execution)
    if asked:
        return "requested"
    row = await database.reads.execution(wish.execution)
    return "requested" if row is not None and row["finished_at"] is None else "already_finished"
