"""Interrupted executions: what a process left open when it went. They are ended here, so that nobody waits for them.

Owns what such an end says. Whatever has a living process is left alone, and each end is guarded, so that several processes
may settle the same executions at once: the first one writes, the others find it done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic_core import from_json

from db.database import Database
from db.endings import Ending
from db.owners import is_alive
from db.reads import Record
from db.status import ExecutionStatus
from db.writes import Place
from runner import facts
from runner.cause import Cause, Verdict, verdict
from runner.lookup import child_of_row
from runner.loose_ends import settle_loose_ends
from runner.recorder import Recorder
from runner.result import Problem, failed
from runner.transcript import Message

INTERRUPTED = Problem(
    "interrupted",
    "the process that ran it ended before it did",
    severity="high",
    recoverable=True,
    recommendation="start it again",
)


async def settle_interrupted(database: Database, recorder: Recorder) -> int:
    """End every open execution whose process is gone; return how many were ended here."""
    left = await _left(database)
    places = {row["id"]: Place(row["id"], row["parent_execution_id"], row["root_execution_id"]) for row in left}
    ends = [await _ended(database, row, places) for row in left]
    settled: list[facts.Ended] = []
    for end, ticket in [
        (end, recorder.post(end)) for end in ends
    ]:  # handed in before any is waited for: committed together
        await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        if ticket.held:
            settled.append(end)
            _report(recorder, end)
    for root in dict.fromkeys(end.ending.place.root_execution_id for end in settled):
        await settle_loose_ends(database.reads, recorder, root)
    return len(settled)


async def _left(database: Database) -> Sequence[Record]:
    """Open executions without a process, children before parents."""
    rows = await database.reads.open_executions()
    gone = {owner for owner in {row["owner"] for row in rows} if not (owner and is_alive(database.path, owner))}
    return [row for row in rows if row["owner"] in gone]


async def _found(database: Database, row: Record) -> str:
    """The newest text of its model: what there is to show."""
    replies = [each for each in await database.reads.messages(row["id"]) if each["kind"] == "reply"]
    texts = (Message("assistant", from_json(reply["content"])).text for reply in reversed(replies))
    return next((text for text in texts if text), "")


def _judged(row: Record, found: str) -> Verdict:
    if row["cancel_requested_at"] is not None:
        return verdict(Cause("user", row["cancelled_by"] or "", row["cancel_reason"] or ""), found)
    judged = Verdict(ExecutionStatus.FAILED, failed(INTERRUPTED, found), INTERRUPTED.type, INTERRUPTED.message)
    never_began = row["status"] == ExecutionStatus.PENDING
    return replace(judged, status=ExecutionStatus.BLOCKED) if never_began else judged


async def _ended(database: Database, row: Record, places: Mapping[str, Place]) -> facts.Ended:
    judged, last = _judged(row, await _found(database, row)), child_of_row(row)
    ending = Ending(
        place=places[row["id"]],
        attempt=row["attempt"],
        status=judged.status,
        outcome=judged.result.outcome.value,
        reason=judged.result.reason,
        result=judged.result.stamped(execution_id=row["id"], agent=row["agent"], **last.usage).to_json(),
        error_type=judged.error_type,
        error=judged.error,
        had_children=True,
    )
    return facts.Ended(ending, row["agent"], last.elapsed, places.get(row["parent_execution_id"]), last.usage)


def _report(recorder: Recorder, end: facts.Ended) -> None:
    if end.ending.status is ExecutionStatus.FAILED:
        recorder.post(facts.Failed(end.ending.place, end.agent, INTERRUPTED.type, INTERRUPTED.message))
