"""The end of an execution, written exactly once.

Why an end cannot be lost or written twice
------------------------------------------
Several writers may want to end one execution: its own task, a cancel of its ancestor, the supervisor after the grace
period, another process that adopted the tree. They do not coordinate; the row decides. The last write is one transaction
that sets the terminal status, closes every open row below and inserts the delivery into the parent's inbox. It is guarded:

* **by the status.** A terminal row is final. The first writer wins; every other one reads that end and takes it over.
* **by the epoch.** A process that lost the execution to a takeover holds an old fencing token, so it changes nothing.
* **by the cancel request, for `completed` and `failed`.** Neither can overtake a cancel that is already committed.
* **by unread deliveries and open children, for `completed`.** A message that arrives during the last model call is not
  lost: the write is refused, the message goes into the inbox, and the strategy runs again.

After `shutdown` and `fenced` nothing is written: the row stays open for the process that resumes it. The write is shielded
and bounded in time. This module reads a view of the execution and returns the end; it never changes the execution itself.
A result lists every artifact reported or written in the subtree, each path once, however the execution ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from db.clock import loop_time
from db.errors import StoreError, WriterClosed
from db.rows.endings import Ending
from db.rows.executions import Place
from db.rows.reads import Reads
from db.rows.users import UserAnswer
from db.status import ExecutionStatus
from registry import AgentSpec
from runner.chat import answer_of, language_for
from runner.core.allowance import Allowance
from runner.core.history import lineage
from runner.core.inbox import Item
from runner.core.orphans import settle_orphans
from runner.core.spawn import SpawnRequest
from runner.core.strategy import State
from runner.core.tree import Node
from runner.core.verdict import OUT_OF_TIME, Cause, End, Final, Life, Verdict, verdict
from runner.core.views import standing_of, usage_of
from runner.errors import Fenced
from runner.messages import clean
from runner.provider_error import PROVIDER
from runner.record import facts
from runner.record.recorder import Recorder
from runner.result import (
    LEAST_PREFIX,
    ORIGIN,
    UNVERIFIED,
    Artifact,
    Result,
    explained,
    handles_of,
    remark,
    unmade,
)
from runner.snapshot import Snapshot

log = logging.getLogger("outrider.execution")

TASK_SHOWN = 200
"""Characters of the task in an error record."""


@dataclass(frozen=True, slots=True)
class EndView:
    """What the last write needs to know of an execution."""

    node: Node
    request: SpawnRequest
    life: Life
    allowance: Allowance
    state: State
    children: Mapping[str, Snapshot]
    """The ended ones, by id."""
    had_children: bool
    partial_output: str
    recorder: Recorder
    reads: Reads
    parent: Place | None

    @property
    def id(self) -> str:
        return self.node.id

    @property
    def strategy(self) -> str:
        return self.request.agent.strategy if isinstance(self.request.agent, AgentSpec) else "chain"


async def finish(view: EndView, end: End, why_stopped: Callable[[], Cause]) -> Final | None:
    """Write the end and return the one stored, if any. It never raises: a failing store must not cancel siblings."""
    try:
        return await _finish(view, end, why_stopped)
    except WriterClosed:
        log.warning("execution %s (%s) is left to the next process", view.id, view.node.name)
    except Exception:
        log.exception("the end of execution %s (%s) could not be written", view.id, view.node.name)
    return None


async def _finish(view: EndView, end: End, why_stopped: Callable[[], Cause]) -> Final | None:
    if isinstance(end, Fenced | WriterClosed) or (isinstance(end, Cause) and end.silent):
        stored = await _stored_end(view, why_stopped)
        if stored is None and isinstance(end, Cause) and end.kind == "shutdown" and not view.state.asking:
            # Tells the process that resumes it that no model call was in flight.
            view.recorder.record_nowait(facts.Left(view.node.place, view.life.epoch))
        return stored
    if view.life.epoch > 1:  # calls that an earlier process started in this subtree and that were never settled
        await settle_orphans(view.reads, view.recorder, view.id, ended=False)
    judged = verdict(end, view.partial_output)
    if view.life.status is ExecutionStatus.PENDING and judged.status is ExecutionStatus.FAILED:
        judged = replace(judged, status=ExecutionStatus.BLOCKED)  # an execution that never started cannot fail
    if (final := await write(view, judged)) is not None:
        return final
    refused = await why_refused(view)
    if isinstance(refused, Cause) and (final := await write(view, verdict(refused, view.partial_output))) is not None:
        return final
    return await _stored_end(view, why_stopped)


def assumed(view: EndView, end: End) -> Final:
    """The end to assume when the store did not answer in time: the write is queued and will follow."""
    judged = verdict(end, view.partial_output)
    return Final(judged.status, judged.result, judged.error, loop_time())


async def write(view: EndView, judged: Verdict, *, shielded: bool = False) -> Final | None:
    """The last write; None when its guards refuse it: already terminal, cancel requested, or a delivery unread."""
    now = loop_time()
    result = _stamped(view, await _verified(view, judged.result), now)
    fact = facts.Ended(
        _ending(view, judged, result),
        view.node.name,
        now - view.life.created_at,
        view.parent,
        _totals(view, judged, result),
        _answer(view, judged, result),
    )
    if not (await view.recorder.record(fact, shielded=shielded)).held:
        return None
    if judged.severity is not None and not _passed_on(view, result):
        known = result.errors[0].context if result.errors else {}
        _report(view, judged, judged.severity, {**known, "task": view.request.task[:TASK_SHOWN]})
    if view.life.epoch > 1 and view.strategy == "plan":
        # A resumed plan that concludes does not return to an open question whether a step may start.
        await settle_orphans(view.reads, view.recorder, view.id)
    return Final(judged.status, result, judged.error, now)


def _ending(view: EndView, judged: Verdict, result: Result) -> Ending:
    return Ending(
        place=view.node.place,
        attempt=view.life.epoch,
        status=judged.status,
        outcome=result.outcome.value,
        reason=result.reason,
        result=clean(result.to_json()),
        error_type=judged.error_type,
        error=clean(judged.error) if judged.error is not None else None,
        had_children=view.had_children,
        frees_money=view.allowance.budget is not None,
        stopped_by=judged.stopped.by if judged.stopped is not None else None,
        stopped_because=judged.stopped.reason if judged.stopped is not None else None,
    )


def _answer(view: EndView, judged: Verdict, result: Result) -> UserAnswer | None:
    """The answer to the user, if this is a root that works for one."""
    user = view.node.origin.user
    if view.parent is not None or user is None:
        return None
    return answer_of(view.id, judged.status, result, language_for(view.request.task, user))


def _totals(view: EndView, judged: Verdict, result: Result) -> dict[str, Any]:
    """The fields of the final event besides status and outcome."""
    totals = usage_of(view.allowance) | {"session_id": view.node.origin.session}
    totals |= {"step_id": view.request.step.id} if view.request.step.id is not None else {}
    first = result.errors[0] if judged.error is not None and result.errors else None
    if first is not None and PROVIDER in first.context:
        totals[PROVIDER] = first.context[PROVIDER]
    return totals


async def why_refused(view: EndView) -> End | list[Item]:
    """Why success was refused: a cancel request, or an end by another writer; else the unread messages to continue with."""
    row = await view.reads.execution(view.id)
    assert row is not None
    if ExecutionStatus(row["status"]).is_terminal:
        return Fenced(view.id)
    if row["cancel_requested_at"] is not None:
        return Cause("user", row["cancelled_by"] or "", row["cancel_reason"] or "")
    return [Item.of_row(delivery) for delivery in await view.reads.unread(view.id) if delivery["kind"] != "result"]


async def give_up(view: EndView, cause: Cause, activity: str) -> Final | None:
    """Write the end of an execution that did not stop within the grace period; None when it ended after all."""
    judged = verdict(cause, view.partial_output)
    judged = replace(judged, error_type="stubborn", error="it did not stop within the grace period")
    try:
        final = await write(view, judged)
        if final is None:
            return None
        await settle_orphans(view.reads, view.recorder, view.id)
    except StoreError:
        log.exception("execution %s (%s) could not be abandoned yet", view.id, view.node.name)
        return None
    _report(view, judged, "high", {"activity": activity})
    return final


async def _stored_end(view: EndView, why_stopped: Callable[[], Cause]) -> Final | None:
    """The end that another writer stored, such as a cancel of a pending execution or the supervisor."""
    row = await view.reads.execution(view.id)
    if row is None or not ExecutionStatus(row["status"]).is_terminal:
        return None
    stored = row["result"]
    result = Result.of_json(stored) if stored else verdict(why_stopped(), "").result
    return Final(ExecutionStatus(row["status"]), result, row["error"], loop_time())


def _passed_on(view: EndView, result: Result) -> bool:
    """Whether an execution below already reported the error it failed with."""
    first = result.errors[0] if result.errors else None
    if first is None or (origin := first.context.get(ORIGIN)) in (None, view.id):
        return False
    known = [error for child in view.children.values() if child.result is not None for error in child.result.errors]
    return any(each.type == first.type and each.context.get(ORIGIN) == origin for each in known)


def _report(view: EndView, judged: Verdict, severity: str, context: Mapping[str, Any]) -> None:
    kind, message = judged.error_type or "", judged.error or ""
    where = {"session_id": view.node.origin.session, **context}
    # A provider's text contains counts and times, so two equal errors differ; our own message identifies them.
    same = judged.result.errors[0].message if PROVIDER in where and judged.result.errors else None
    fact = facts.Failed(view.node.place, view.node.name, kind, message, severity, where, judged.stack_trace, same)
    view.recorder.record_nowait(fact)


async def _verified(view: EndView, result: Result) -> Result:
    """The result, with a warning for cited calls that were never made."""
    if result.output is None or not (handles := handles_of(result.text)):
        return result
    reads = view.reads
    try:
        earlier = [await reads.execution(each) for each in await lineage(reads, view.request.continues)]
        roots = [view.node.place.root_execution_id, *(row["root_execution_id"] for row in earlier if row is not None)]
        missing = unmade(handles, await reads.calls_like(roots, handles, LEAST_PREFIX))
    except StoreError:  # the end matters more than the warning
        log.exception("the calls that execution %s cites could not be looked up", view.id)
        return result
    if not missing:
        return result
    return result.stamped(**{UNVERIFIED: missing, "warnings": [*result.metadata.get("warnings", ()), remark(missing)]})


def _stamped(view: EndView, result: Result, now: float) -> Result:
    standing = standing_of(view.node, now - view.life.created_at)
    metadata: dict[str, Any] = {"execution_id": view.id, "agent": view.node.name, **standing}
    metadata |= usage_of(view.allowance)
    results = [child.result for child in view.children.values() if child.result is not None]
    if view.state.rehearsed or any(each.metadata.get("rehearsed") for each in results):
        metadata["rehearsed"] = True
    if warnings := [*result.metadata.get("warnings", ()), *view.state.warnings]:
        metadata["warnings"] = warnings
    if view.children:
        metadata["dispatched"] = [_brief(child) for child in view.children.values()]
    whole = with_artifacts(result.stamped(**metadata), view.state.artifacts, results)
    return explained(whole, view.node.origin.session, view.node.name, view.id)


def _brief(child: Snapshot) -> dict[str, Any]:
    below = child.result.metadata.get("dispatched") if child.result is not None else None
    brief = {"execution_id": child.id, "agent": child.agent, "status": child.status, "task": child.task}
    return {**brief, "dispatched": below} if below else brief


def with_artifacts(result: Result, written: Sequence[Artifact], below: Iterable[Result]) -> Result:
    """The result with all artifacts of the subtree. A timed-out result without output gets a summary that names them."""
    made: dict[object, Artifact] = {}
    for artifact in (*result.artifacts, *written, *(each for answer in below for each in answer.artifacts)):
        made.setdefault(artifact.get("path") or repr(artifact), artifact)
    if len(made) == len(result.artifacts):
        return result
    whole = replace(result, artifacts=tuple(made.values()))
    if result.reason != "timeout" or result.output is not None:
        return whole
    files = "a file" if len(made) == 1 else f"{len(made)} files"
    return replace(whole, summary=f"{OUT_OF_TIME}; it had written {files}")
