"""The end of an execution, written once: the first writer wins, and every other one takes that end over.

Owns the last write and what follows when it is refused. It reads a view of the execution and returns the end to take over;
it does not decide when an execution ends (`runner/core/execution.py`) or what an end means (`runner/core/verdict.py`).
Artifacts of a result are those reported and every file written, by the execution or below it, however it ended; no path is
listed twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from db.errors import StoreError, WriterClosed
from db.rows.endings import Ending
from db.rows.executions import Place
from db.rows.reads import Reads
from db.rows.users import Answer
from db.status import ExecutionStatus
from registry import AgentSpec
from runner.chat import answer_of, language_for
from runner.core import facts
from runner.core.allowance import Allowance
from runner.core.history import lineage
from runner.core.inbox import Item
from runner.core.orphans import settle_loose_ends
from runner.core.recorder import Recorder
from runner.core.spawn import SpawnRequest
from runner.core.strategy import State
from runner.core.tree import Node
from runner.core.verdict import OUT_OF_TIME, Cause, End, Final, Life, Verdict, verdict
from runner.core.views import standing_of, usage_of
from runner.errors import Fenced
from runner.messages import clean
from runner.provider_error import PROVIDER
from runner.result import (
    LEAST_PREFIX,
    UNVERIFIED,
    Artifact,
    Result,
    explained,
    handles_of,
    remark,
    unmade,
)
from runner.snapshot import Child

log = logging.getLogger("outrider.execution")

TASK_SHOWN = 200
"""Characters of a task that an error record repeats."""


@dataclass(frozen=True, slots=True)
class EndView:
    """An execution, as its last write needs it."""

    node: Node
    request: SpawnRequest
    life: Life
    allowance: Allowance
    state: State
    children: Mapping[str, Child]
    """Those that have ended."""
    had_children: bool
    partial_output: str
    recorder: Recorder
    reads: Reads
    parent: Place | None

    @property
    def id(self) -> str:
        """Its id."""
        return self.node.id

    @property
    def strategy(self) -> str:
        """The name of its strategy."""
        return self.request.agent.strategy if isinstance(self.request.agent, AgentSpec) else "chain"


async def finish(view: EndView, end: End, why_stopped: Callable[[], Cause]) -> Final | None:
    """Write the end; the end to take over, if there is one. A store that fails now must not take the siblings down."""
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
            # The process that resumes it learns that no model call was cut.
            view.recorder.record_nowait(facts.Left(view.node.place, view.life.epoch))
        return stored
    if view.life.epoch > 1:  # calls that another process began, here or below, and that were not taken up again
        await settle_loose_ends(view.reads, view.recorder, view.id, ended=False)
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
    """The store did not answer in time: this process goes on as if the end were written; the write is on its way."""
    judged = verdict(end, view.partial_output)
    return Final(judged.status, judged.result, judged.error, anyio.current_time())


async def write(view: EndView, judged: Verdict, *, shielded: bool = False) -> Final | None:
    """The last write; None when it is refused: ended already, asked to stop, or something is open or unread."""
    now = anyio.current_time()
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
        # A plan that concludes after a restart does not come back to the question whether a step may start.
        await settle_loose_ends(view.reads, view.recorder, view.id)
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


def _answer(view: EndView, judged: Verdict, result: Result) -> Answer | None:
    """The answer to the user, of a top-level execution that works for one."""
    user = view.node.origin.user
    if view.parent is not None or user is None:
        return None
    return answer_of(view.id, judged.status, result, language_for(view.request.task, user))


def _totals(view: EndView, judged: Verdict, result: Result) -> dict[str, Any]:
    """What the event of the end tells beside status and outcome."""
    totals = usage_of(view.allowance) | {"session_id": view.node.origin.session}
    totals |= {"step_id": view.request.step.id} if view.request.step.id is not None else {}
    first = result.errors[0] if judged.error is not None and result.errors else None
    if first is not None and PROVIDER in first.context:
        totals[PROVIDER] = first.context[PROVIDER]
    return totals


async def why_refused(view: EndView) -> End | list[Item]:
    """Why success was refused: asked to stop, or ended by another process; else the unread messages to go on with."""
    row = await view.reads.execution(view.id)
    assert row is not None
    if ExecutionStatus(row["status"]).is_terminal:
        return Fenced(view.id)
    if row["cancel_requested_at"] is not None:
        return Cause("user", row["cancelled_by"] or "", row["cancel_reason"] or "")
    return [Item.of_row(delivery) for delivery in await view.reads.unread(view.id) if delivery["kind"] != "result"]


async def give_up(view: EndView, cause: Cause, activity: str) -> Final | None:
    """Write the end of an execution that did not stop in time; None when it did after all."""
    judged = verdict(cause, view.partial_output)
    judged = replace(judged, error_type="stubborn", error="it did not stop within the grace period")
    try:
        final = await write(view, judged)
        if final is None:
            return None
        await settle_loose_ends(view.reads, view.recorder, view.id)
    except StoreError:
        log.exception("execution %s (%s) could not be given up yet", view.id, view.node.name)
        return None
    _report(view, judged, "high", {"activity": activity})
    return final


async def _stored_end(view: EndView, why_stopped: Callable[[], Cause]) -> Final | None:
    """The end that another writer stored (a cancel of a pending execution, the supervisor), if there is one."""
    row = await view.reads.execution(view.id)
    if row is None or not ExecutionStatus(row["status"]).is_terminal:
        return None
    stored = row["result"]
    result = Result.of_json(stored) if stored else verdict(why_stopped(), "").result
    return Final(ExecutionStatus(row["status"]), result, row["error"], anyio.current_time())


def _passed_on(view: EndView, result: Result) -> bool:
    """Whether it failed with an error that an execution below it has reported."""
    first = result.errors[0] if result.errors else None
    if first is None or (first.context.get("subagent") == view.node.name and "step" not in first.context):
        return False
    known = [error for child in view.children.values() if child.result is not None for error in child.result.errors]
    return any(each.type == first.type and first.message.endswith(each.message) for each in known)


def _report(view: EndView, judged: Verdict, severity: str, context: Mapping[str, Any]) -> None:
    kind, message = judged.error_type or "", judged.error or ""
    where = {"session_id": view.node.origin.session, **context}
    # The provider's text differs each time, by counts and times of day; our message tells which error it is.
    same = judged.result.errors[0].message if PROVIDER in where and judged.result.errors else None
    fact = facts.Failed(view.node.place, view.node.name, kind, message, severity, where, judged.stack_trace, same)
    view.recorder.record_nowait(fact)


async def _verified(view: EndView, result: Result) -> Result:
    """The result, with the citations that no call matches."""
    if result.output is None or not (handles := handles_of(result.text)):
        return result
    reads = view.reads
    try:
        earlier = [await reads.execution(each) for each in await lineage(reads, view.request.continues)]
        roots = [view.node.place.root_execution_id, *(row["root_execution_id"] for row in earlier if row is not None)]
        missing = unmade(handles, await reads.calls_like(roots, handles, LEAST_PREFIX))
    except StoreError:  # its end is worth more than the remark
        log.exception("what execution %s cites could not be looked up", view.id)
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
    return explained(whole, view.node.origin.session, view.node.name)


def _brief(child: Child) -> dict[str, Any]:
    below = child.result.metadata.get("dispatched") if child.result is not None else None
    brief = {"execution_id": child.id, "agent": child.agent, "status": child.status, "task": child.task}
    return {**brief, "dispatched": below} if below else brief


def with_artifacts(result: Result, written: Sequence[Artifact], below: Iterable[Result]) -> Result:
    """The result with everything that was made; whoever ran out of time with no words to show says so."""
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
