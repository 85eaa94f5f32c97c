"""The end of an execution: which status, result and error it means, and the one last write.

The first writer wins; every other one takes that end over. Owns the verdict, the last write, and what follows when it is
refused. It does not decide when an execution ends; `runner/core/execution.py` does. Artifacts of a result are those
reported and every file written, by the execution or below it, however it ended; no path is listed twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from db.errors import StoreError, WriterClosed
from db.rows.endings import Ending
from db.status import ExecutionStatus
from registry import AgentSpec
from runner.chat import answer_of, language_for
from runner.core import facts
from runner.core.facts import Failed
from runner.core.history import lineage
from runner.core.inbox import Item
from runner.core.orphans import settle_loose_ends
from runner.core.views import activity_of, elapsed_of, standing_of, usage_of
from runner.errors import Fenced
from runner.messages import clean
from runner.provider_error import PROVIDER
from runner.result import LEAST_PREFIX, UNVERIFIED, Result, explained, handles_of, remark, unmade
from runner.snapshot import Child

if TYPE_CHECKING:
    from runner.core.execution import Execution
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from traceback import format_tb
from typing import Literal

from runner.errors import Interrupted, Refusal, RunnerError, ServerMissing
from runner.llm.protocol import ModelError
from runner.result import TOOL_UNAVAILABLE, Artifact, Outcome, Problem, failed, partial, stopped, summarise

TASK_SHOWN = 200
"""Characters of a task that an error record repeats."""

log = logging.getLogger("outrider.execution")


class Closing:
    """The end of one execution."""

    __slots__ = ("_of", "_written")

    def __init__(self, execution: Execution) -> None:
        self._of = execution
        self._written = False

    async def finish(self, end: End) -> None:
        """Write the end, if nobody has; a store that fails now must not take the siblings down."""
        if self._written:
            return
        try:
            await self._finish(end)
        except WriterClosed:
            log.warning("execution %s (%s) is left to the next process", self._of.id, self._of.name)
        except Exception:
            log.exception("the end of execution %s (%s) could not be written", self._of.id, self._of.name)

    async def _finish(self, end: End) -> None:
        execution = self._of
        if isinstance(end, Fenced | WriterClosed) or (isinstance(end, Cause) and end.silent):
            if not await self._adopt() and isinstance(end, Cause) and end.kind == "shutdown":
                self._leave()
            return
        if execution.attempt > 1:  # calls that another process began, here or below, and that nobody took up again
            await settle_loose_ends(
                execution.services.database.reads, execution.services.recorder, execution.id, ended=False
            )
        judged = verdict(end, execution.found)
        if execution.status is ExecutionStatus.PENDING and judged.status is ExecutionStatus.FAILED:
            judged = replace(judged, status=ExecutionStatus.BLOCKED)  # what never started cannot fail
        if await self.write(judged):
            return
        refused = await self.why_refused()
        if not isinstance(refused, Cause) or not await self.write(verdict(refused, execution.found)):
            await self._adopt()

    def _leave(self) -> None:
        """Whoever goes on with it should know that no call of its model was cut, if none was."""
        execution = self._of
        if execution.work is None or not execution.work.asking:
            execution.services.recorder.record_nowait(facts.Left(execution.place, execution.attempt))

    def assume(self, end: End) -> None:
        """The store did not answer in time: this process goes on as if the end were written; the write is on its way."""
        if not self._written:
            judged = verdict(end, self._of.found)
            self._of.status, self._of.result, self._of.error = judged.status, judged.result, judged.error

    async def write(self, judged: Verdict, *, shielded: bool = False) -> bool:
        """The last write; False when it is refused: ended already, asked to stop, or something is open or unread."""
        execution = self._of
        execution.ended_at = anyio.current_time()
        result = self._stamped(await self._verified(judged.result))
        ending = Ending(
            place=execution.place,
            attempt=execution.attempt,
            status=judged.status,
            outcome=result.outcome.value,
            reason=result.reason,
            result=clean(result.to_json()),
            error_type=judged.error_type,
            error=clean(judged.error) if judged.error is not None else None,
            had_children=execution.had_children,
            frees_money=execution.allowance.budget is not None,
            stopped_by=judged.stopped.by if judged.stopped is not None else None,
            stopped_because=judged.stopped.reason if judged.stopped is not None else None,
        )
        parent = execution.parent.place if execution.parent is not None else None
        answer = None
        if parent is None and (user := execution.origin.user) is not None:
            answer = answer_of(execution.id, judged.status, result, language_for(execution.request.task, user))
        step = execution.request.step
        totals = usage_of(execution) | {"session_id": execution.origin.session}
        totals |= {"step_id": step} if step is not None else {}
        first = result.errors[0] if judged.error is not None and result.errors else None
        if first is not None and PROVIDER in first.context:
            totals[PROVIDER] = first.context[PROVIDER]
        fact = facts.Ended(ending, execution.name, elapsed_of(execution), parent, totals, answer)
        if not (await execution.services.recorder.record(fact, shielded=shielded)).held:
            return False
        self._written = True
        execution.status, execution.result, execution.error = judged.status, result, judged.error
        if judged.severity is not None and not self._passed_on(result):
            known = result.errors[0].context if result.errors else {}
            self._report(judged, judged.severity, {**known, "task": execution.request.task[:TASK_SHOWN]})
        agent = execution.request.agent
        if execution.attempt > 1 and isinstance(agent, AgentSpec) and agent.strategy == "plan":
            # A plan that concludes after a restart does not come back to the question whether a step may start.
            await settle_loose_ends(execution.services.database.reads, execution.services.recorder, execution.id)
        return True

    async def why_refused(self) -> End | None:
        """Why success was refused: asked to stop, ended by somebody else, or None: something is unread, go on with it."""
        execution, reads = self._of, self._of.services.database.reads
        row = await reads.execution(execution.id)
        assert row is not None
        if ExecutionStatus(row["status"]).is_terminal:
            return Fenced(execution.id)
        if row["cancel_requested_at"] is not None:
            return Cause("user", row["cancelled_by"] or "", row["cancel_reason"] or "")
        for delivery in await reads.unread(execution.id):
            if delivery["kind"] != "result":
                execution.inbox.put(Item.of_row(delivery))
        return None

    async def give_up(self) -> bool:
        """Write the end of an execution that did not stop in time; False when it did after all."""
        execution = self._of
        judged = verdict(execution.why_stopped(), execution.found)
        note = "it did not stop in time and was given up"
        judged = replace(judged, error_type="stubborn", error=note)
        try:
            if not await self.write(judged):
                return False
            await settle_loose_ends(execution.services.database.reads, execution.services.recorder, execution.id)
        except StoreError:
            log.exception("execution %s (%s) could not be given up yet", execution.id, execution.name)
            return False
        self._report(judged, "high", {"activity": activity_of(execution)})
        return True

    async def _adopt(self) -> bool:
        """Somebody else wrote the end (a cancel of what had not started, the supervisor): take it over."""
        execution = self._of
        row = await execution.services.database.reads.execution(execution.id)
        if row is None or not ExecutionStatus(row["status"]).is_terminal:
            return False
        self._written = True
        execution.status, execution.error = ExecutionStatus(row["status"]), row["error"]
        stored = row["result"]
        execution.result = Result.of_json(stored) if stored else verdict(execution.why_stopped(), "").result
        return True

    def _passed_on(self, result: Result) -> bool:
        """Whether it failed with what somebody below had failed with, who has reported it."""
        execution, first = self._of, result.errors[0] if result.errors else None
        if first is None or (first.context.get("subagent") == execution.name and "step" not in first.context):
            return False
        known = [error for child in execution.ended.values() if child.result is not None for error in child.result.errors]
        return any(each.type == first.type and first.message.endswith(each.message) for each in known)

    def _report(self, judged: Verdict, severity: str, context: Mapping[str, Any]) -> None:
        execution, kind, message = self._of, judged.error_type or "", judged.error or ""
        where = {"session_id": execution.origin.session, **context}
        # What a provider says differs each time, by counts and times of day; our words tell which error it is.
        same = judged.result.errors[0].message if PROVIDER in where and judged.result.errors else None
        fact = Failed(execution.place, execution.name, kind, message, severity, where, judged.stack_trace, same)
        execution.services.recorder.record_nowait(fact)

    async def _verified(self, result: Result) -> Result:
        """The result, with what it cites that no call shows."""
        execution, reads = self._of, self._of.services.database.reads
        if result.output is None or not (handles := handles_of(result.text)):
            return result
        try:
            earlier = [await reads.execution(each) for each in await lineage(reads, execution.request.continues)]
            roots = [execution.place.root_execution_id, *(row["root_execution_id"] for row in earlier if row is not None)]
            missing = unmade(handles, await reads.calls_like(roots, handles, LEAST_PREFIX))
        except StoreError:  # its end is worth more than the remark
            log.exception("what execution %s cites could not be looked up", execution.id)
            return result
        if not missing:
            return result
        return result.stamped(**{UNVERIFIED: missing, "warnings": [*result.metadata.get("warnings", ()), remark(missing)]})

    def _stamped(self, result: Result) -> Result:
        execution = self._of
        metadata: dict[str, Any] = {"execution_id": execution.id, "agent": execution.name, **standing_of(execution)}
        metadata |= usage_of(execution)
        results = [child.result for child in execution.ended.values() if child.result is not None]
        below = any(result.metadata.get("rehearsed") for result in results)
        if below or (execution.work is not None and execution.work.rehearsed):
            metadata["rehearsed"] = True
        warnings = [*result.metadata.get("warnings", ()), *(execution.work.warnings if execution.work is not None else ())]
        if warnings:
            metadata["warnings"] = warnings
        if execution.ended:
            metadata["dispatched"] = [_brief(child) for child in execution.ended.values()]
        written = execution.work.artifacts if execution.work is not None else ()
        whole = with_artifacts(result.stamped(**metadata), written, results)
        return explained(whole, execution.origin.session, execution.name)


def _brief(child: Child) -> dict[str, Any]:
    below = child.result.metadata.get("dispatched") if child.result is not None else None
    brief = {"execution_id": child.id, "agent": child.agent, "status": child.status, "task": child.task}
    return {**brief, "dispatched": below} if below else brief


OUT_OF_TIME = "its time ran out"

CauseKind = Literal["user", "deadline", "parent", "shutdown", "fenced"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an execution was stopped. After `shutdown` and `fenced` nothing is written: somebody else goes on with it."""

    kind: CauseKind
    by: str = ""
    reason: str = ""
    seconds: float | None = None
    """The time that ran out, after `deadline`."""

    @property
    def silent(self) -> bool:
        """Whether the execution must leave its row as it is."""
        return self.kind in ("shutdown", "fenced")


@dataclass(frozen=True, slots=True)
class Dismissal:
    """Why an execution that had not begun never will: something it needs did not succeed or is not allowed (`blocked`), or
    it is no longer wanted (`skipped`)."""

    status: Literal["blocked", "skipped"]
    problem: Problem


End = Result | Cause | Dismissal | Exception
"""How an execution comes to its end: with an answer, stopped, dismissed before it began, or by an error."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is written at the end."""

    status: ExecutionStatus
    result: Result
    error_type: str | None = None
    error: str | None = None
    stopped: Cause | None = None
    stack_trace: str | None = None
    """Where an error of ours arose: lines of code, without what it said."""

    @property
    def severity(self) -> str | None:
        """How grave an error it is, for whoever looks after this; None where it is none, as a stop never is."""
        if self.status is ExecutionStatus.TIMED_OUT and self.error_type == "timeout":
            return "medium"
        if self.status is not ExecutionStatus.FAILED:
            return None
        return "critical" if any(each.severity == "critical" for each in self.result.errors[:1]) else "high"


def verdict(end: End, found: str) -> Verdict:
    """The status an end means: an answer → completed, deadline → timed_out, a stop → cancelled, anything else → failed."""
    if isinstance(end, Result):
        if end.outcome is Outcome.FAILED:
            problem = end.errors[0] if end.errors else Problem("failed", end.summary)
            told = end if end.errors else replace(end, errors=(problem,))
            return Verdict(ExecutionStatus.FAILED, told, problem.type, problem.in_full)
        return Verdict(ExecutionStatus.COMPLETED, end)
    if isinstance(end, Cause):
        if end.kind == "deadline":
            problem = Problem("timeout", OUT_OF_TIME, recommendation="give it more time", context=_time_of(end))
            return Verdict(ExecutionStatus.TIMED_OUT, _cut_off(found, problem), problem.type, problem.message)
        return Verdict(ExecutionStatus.CANCELLED, stopped(found), stopped=end)
    if isinstance(end, Dismissal):
        problem = end.problem
        result = Result(Outcome.BLOCKED, summarise(problem.message), None, problem.type, errors=(problem,))
        return Verdict(ExecutionStatus(end.status), result, problem.type, problem.message)
    problem = _problem(end)
    trace = "".join(format_tb(end.__traceback__)) if problem.type == "internal" else None
    return Verdict(ExecutionStatus.FAILED, failed(problem, found), problem.type, problem.in_full, stack_trace=trace)


def salvaged(error: Exception, found: str, reason: str | None) -> End:
    """The end of an execution whose model could not answer any more: where it had to conclude, what it has counts."""
    if isinstance(error, ModelError) and error.recoverable and reason is not None and found.strip():
        return partial(found, reason, (_problem(error),))
    return error


def said_by_provider(error: Exception) -> str:
    """What a model's provider said when it failed, for a log line."""
    said = error.provider.shown if isinstance(error, ModelError) and error.provider is not None else None
    return f"; the provider said {said}" if said else ""


def _time_of(deadline: Cause) -> dict[str, float]:
    return {"timeout": deadline.seconds} if deadline.seconds is not None else {}


def _cut_off(found: str, problem: Problem) -> Result:
    """What there was when the time ran out: part of an answer, even when it is nothing, because one may go on from it."""
    if found.strip():
        return partial(found, problem.type, (problem,))
    return Result(Outcome.PARTIAL, f"{problem.message} before anything was found", None, problem.type, errors=(problem,))


def missing_server(error: ServerMissing) -> Problem:
    """A server that an agent cannot work without, as its result tells: it may be there again."""
    context = {"server": error.server}
    return Problem(TOOL_UNAVAILABLE, str(error), None, "high", recommendation=error.hint, context=context)


def _problem(error: Exception) -> Problem:
    hint = getattr(error, "hint", "") or None
    if isinstance(error, ModelError):
        message = f"the model could not answer: {error}"
        said = {PROVIDER: error.provider.shown} if error.provider is not None else {}
        return Problem("model", message, error.kind, "high", error.recoverable, hint, said)
    if isinstance(error, StoreError):
        return Problem("store", str(error), None, "critical", recoverable=False, recommendation=hint)
    if isinstance(error, Interrupted):
        return Problem("interrupted", str(error), None, "high", recommendation=hint)
    if isinstance(error, Refusal):
        return Problem(error.kind, str(error), None, "high", recoverable=False, recommendation=hint, context=error.context)
    if isinstance(error, ServerMissing):
        return missing_server(error)
    if isinstance(error, RunnerError):
        return Problem("refused", str(error), None, "high", recoverable=False, recommendation=hint)
    message, hint = f"an internal error: {type(error).__name__}", "look at `outrider show` and the log"
    return Problem("internal", message, None, "critical", recoverable=False, recommendation=hint)


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
    return replace(whole, summary=f"its time ran out; {files} had been written by then")
