"""iterate: a planner decides the next tasks, workers carry them out, and so on; a completer gives the answer. All of them
are children of the iteration.

It calls no model itself. Decisions are read from rows: a resumed iteration replays the decided turns without asking a
planner again, and continues at the first open one. A task is spawned gated, as a pending row, and released with all that
is known by then. A limit or a stop makes the result partial, never failed, as long as there are findings. If the completer
fails, task results are concatenated, so no finding is lost. An answer for an `output_schema` is never invented: without a
completer the iteration fails, or, if only the budget was missing, its answer says that it does not fit the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from pydantic_core import to_json

from db.ids import made_at
from registry import AgentSpec, Part
from runner.core.history import History
from runner.core.inbox import Item
from runner.core.spawn import SpawnRequest
from runner.core.verdict import Dismissal
from runner.errors import Refusal
from runner.record import facts
from runner.result import BUDGETS, Outcome, Problem, Result, failed, resting_on, summarise
from runner.roles import COMPLETER, PLANNER
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.conclusion import Conclusion
from runner.strategies.context import StrategyContext
from runner.strategies.iterate.decision import Decision, NoDecision, read_decision
from runner.strategies.iterate.objective import Objective, undertaking_of
from runner.strategies.iterate.prompts import (
    LIMIT_REACHED,
    STOPPED,
    UNPAID,
    left_out,
    message_of,
    parameters_of,
    state_of,
)
from runner.strategies.iterate.requests import IterateRequests
from runner.strategies.iterate.tasks import COMPLETED, FAILED, TaskRecord, compressed, concluded

SHARE = 2
"""The state may use at most 1/`SHARE` of a model's context window."""


class Iterate:
    """A running iteration."""

    def __init__(self, context: StrategyContext) -> None:
        assert isinstance(context.subject, AgentSpec)
        self._context, self._spec = context, context.subject.iterate
        self._components = IterateRequests(
            context.settings, context.subject, context.catalogue, context.task, context.history
        )
        self._tracker = ChildTracker(context, lambda row: row["step_id"])
        self._tasks: dict[str, str] = {}
        """Tasks by step id, in order."""
        self._at_work: set[str] = set()
        """Steps that were released, now or before a restart."""
        self._left_out = 0
        """The number of tasks that the newest decision had beyond its limit."""
        self._most = self._spec.max_iterations
        self._skills: Sequence[Mapping[str, str]] | None = None
        self._answer: Result | None = None
        self._conclusion = Conclusion(context)

    @property
    def partial_output(self) -> str:
        """Results of the tasks so far, also of cancelled ones; or the completer's answer so far."""
        texts = [self._tracker.text_of(step_id) for step_id in self._tasks]
        return self._tracker.text_of(COMPLETER) or "\n\n".join(filter(None, texts))

    def restore(self, history: History) -> None:
        """Restore children and released tasks from rows. Turns of the execution it continues do not count; a planner that
        gave no decision there is asked again.
        """
        self._tracker.restore(history)
        rows, taken = history.children, self._tracker.child_ids
        self._at_work = {row["step_id"] for row in rows if row["status"] == "running"}
        before = [
            row["step_id"] for row in rows if row["role"] == PLANNER and row["parent_execution_id"] in history.earlier
        ]
        self._most += len(before)
        for step_id in before:
            if step_id in taken and isinstance(self._decision_in(step_id), Problem):
                del taken[step_id]

    async def run(self) -> Result:
        """Run until there is an answer, once; a later delivery is only stored."""
        if self._answer is None:
            self._answer = await self._reach()
        await self._tracker.read()
        return self._answer

    async def _reach(self) -> Result:
        try:
            about = undertaking_of(self._context, self._components)
        except Refusal as refusal:
            return failed(Problem(refusal.kind, str(refusal), recoverable=False, recommendation=refusal.hint))
        await self._tracker.reapply_wrap_up()
        try:
            problem = await self._pursue(about)
            return await self._conclude(about, problem)
        except Refusal as refusal:
            if refusal.kind == "stopping":
                raise
            problem = Problem(refusal.kind, str(refusal), severity="high", context=refusal.context)
            return failed(replace(problem, recommendation=refusal.hint), self.partial_output)

    # -- plan and work -------------------------------------------------------------------------------------------------

    async def _pursue(self, about: Objective) -> Problem | None:
        """Alternate decisions and tasks; returns why it stopped early, or None when the planner finished."""
        for turn in count(1):
            step_id = f"plan.{turn}"
            if step_id not in self._tracker.child_ids:
                why = self._tracker.why_stop
                if why is not None:
                    return Problem(why, STOPPED.format(reason=why))
                if turn > self._most:
                    return Problem("max_iterations", LIMIT_REACHED.format(count=self._spec.max_iterations))
            decision = await self._decide(turn, step_id, about)
            if isinstance(decision, Problem):
                return decision
            if not decision.tasks:
                return None
            await self._carry_out(decision, about)
        raise AssertionError("counting never ends")

    async def _decide(self, turn: int, step_id: str, about: Objective) -> Decision | Problem:
        context, tracker = self._context, self._tracker
        asked = step_id not in tracker.child_ids
        if asked:
            context.set_activity(f"planning the next tasks (turn {turn})")
            self._keep_price(about)
            parts = {"skills": await self._worker_skills(), "executionState": self._state("planner")}
            told = (self._spec.planner, about, parts)
            await tracker.spawn_step(step_id, self._components.planner(step_id, message_of(*told), parameters_of(*told)))
            await tracker.repeat_messages()
        await tracker.until_ended([step_id])
        decision = self._decision_in(step_id)
        if isinstance(decision, Decision) and (asked or not self._was_told(decision)):
            context.recorder.record_nowait(
                facts.Noticed(context.place, "iterate.decided", {"iteration": turn, **decision.told()})
            )
        return decision

    def _decision_in(self, step_id: str) -> Decision | Problem:
        """The decision of a planner, or why there is none."""
        end = self._tracker.end_of_step(step_id)
        answer = end.answer if end is not None and end.result is not None and end.result.status == "completed" else None
        if answer is None or answer.outcome in ("failed", "blocked"):
            said = end.answer if end is not None else None
            cause = said.problem if said is not None else None
            why = cause.message if cause is not None else "it gave no answer"
            kind = self._tracker.why_stop or "planning_failed"
            return Problem(kind, f"the planner failed: {why}", severity="high").because_of(cause)
        try:
            decision = read_decision(answer.text)
            if not decision.tasks and answer.reason in BUDGETS:  # the planner ran out of budget: the work is not finished
                return Problem(answer.reason, STOPPED.format(reason=answer.reason))
            return decision
        except NoDecision as error:
            return Problem("validation", f"the planner's answer holds no decision: {error}", severity="high")

    def _was_told(self, decision: Decision) -> bool:
        """Whether the tasks of a decision had been spawned before a restart."""
        following = f"task.{len(self._tasks) + 1}" if decision.tasks else COMPLETER
        return following in self._tracker.child_ids

    async def _carry_out(self, decision: Decision, about: Objective) -> None:
        """Run the tasks of a decision; every task has a row before the first one starts."""
        self._left_out = decision.dropped
        first = len(self._tasks) + 1
        step_ids = [f"task.{number}" for number in range(first, first + len(decision.tasks))]
        self._tasks |= dict(zip(step_ids, decision.tasks, strict=True))
        for step_id in step_ids:
            await self._tracker.spawn_step(step_id, self._components.worker(step_id, self._tasks[step_id]))
        if decision.parallel:
            for step_id in step_ids:
                self._begin(step_id, about)
            await self._until_ended(step_ids)
            return
        for step_id in step_ids:
            self._begin(step_id, about)
            await self._until_ended([step_id])

    async def _until_ended(self, step_ids: Sequence[str]) -> None:
        await self._tracker.repeat_messages()
        await self._tracker.until_ended(step_ids)

    def _begin(self, step_id: str, about: Objective) -> None:
        """Release a worker, unless it has started or nothing new may start."""
        tracker, context = self._tracker, self._context
        if tracker.end_of_step(step_id) is not None or step_id in self._at_work:
            return
        child, why = tracker.child_ids[step_id], tracker.why_stop
        if why is None:
            context.set_activity(f"{step_id}: {self._tasks[step_id]}")
            self._keep_price(about)
            parts = {"task": self._tasks[step_id], "executionState": self._state("worker")}
            try:
                context.children.release(child, message_of(self._spec.worker, about, parts), None)
                self._at_work.add(step_id)
                return
            except Refusal as refusal:
                if refusal.kind != "budget":
                    problem = Problem(refusal.kind, str(refusal), recoverable=False, context=refusal.context)
                    context.children.dismiss(child, Dismissal("blocked", replace(problem, recommendation=refusal.hint)))
                    return
                tracker.unpaid = why = refusal.context["reason"]
        context.children.dismiss(child, Dismissal("skipped", Problem(why, "the iteration ended before this task started")))

    # -- answer --------------------------------------------------------------------------------------------------------

    async def _conclude(self, about: Objective, problem: Problem | None) -> Result:
        context, tracker = self._context, self._tracker
        records = self._records()
        if problem is not None and not records:
            return failed(problem)
        context.set_activity("answering")
        request = self._completer(about, problem)
        if over := self._conclusion.over(request):
            request = self._completer(about, problem, over)
        self._conclusion.hand_over()
        await tracker.spawn_step(COMPLETER, request)
        await tracker.repeat_messages()
        await tracker.until_ended([COMPLETER])
        if tracker.unpaid is not None and problem is None:
            problem = Problem(tracker.unpaid, UNPAID.format(reason=tracker.unpaid))
        result = answered(tracker.end_of_step(COMPLETER), records, problem, self._components.who("completer").output_schema)
        ends = map(tracker.end_of_step, self._tasks)
        return resting_on(result, [end.answer for end in ends if end is not None])

    def _completer(self, about: Objective, problem: Problem | None, less: int = 0) -> SpawnRequest:
        """Request the completer; its state is cut by `less` tokens."""
        state = self._state("completer", less)
        if problem is not None:  # in addition to the kept records
            state["tasks"].append(TaskRecord("Reach the objective", FAILED, error=problem.message).shown())
        told = (self._spec.completer, about, {"executionState": state})
        return self._components.completer(message_of(*told), parameters_of(*told))

    def _keep_price(self, about: Objective) -> None:
        """Keep the price of a completer that is shown the results so far."""
        if self._conclusion.limited and COMPLETER not in self._tracker.child_ids:
            told = (self._spec.completer, about, {"executionState": state_of([])})
            ceiling = self._components.window("completer") // SHARE
            known = sum(record.size for record in compressed(self._records(), self._spec, ceiling))
            self._conclusion.keep(self._components.completer(message_of(*told)), known)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _records(self) -> list[TaskRecord]:
        """Records of all tasks, oldest first."""
        records: list[TaskRecord] = []
        for step_id, task in self._tasks.items():
            child = self._tracker.child_ids.get(step_id)
            born = round(made_at(child).timestamp() * 1000) if child is not None else None
            record, end = TaskRecord(task, created_at=born, step_id=step_id), self._tracker.end_of_step(step_id)
            if end is not None and born is not None and child is not None:
                took = self._context.children.ended[child].elapsed if child in self._context.children.ended else 0.0
                record = replace(concluded(record, end), completed_at=born + round(took * 1000))
            records.append(record)
        return records

    def _state(self, part: Part, less: int = 0) -> dict[str, Any]:
        """The execution state as a component is shown it, cut by `less` tokens."""
        known = self._records()
        shown = compressed(known, self._spec, self._components.window(part) // SHARE)
        if less:
            shown = compressed(known, self._spec, max(1, sum(record.size for record in shown) - less))
        if len(shown) < len(known):
            told = {"layer": "execution_state", "left_out": len(known) - len(shown), "for": part}
            self._context.recorder.record_nowait(facts.Noticed(self._context.place, "context.trimmed", told))
        if self._left_out and part != "worker":
            shown.append(left_out(self._left_out))
        return state_of(shown)

    async def _worker_skills(self) -> Sequence[Mapping[str, str]]:
        if self._skills is None:
            self._skills = await self._context.lookups.skills(*self._components.skills())
        return self._skills


NO_COMPLETER = "the completer failed: the answer was assembled from task results without a model"
FORMLESS = "the answer does not fit its `output_schema`: no budget was left for one that does"


def answered(
    end: Item | None, records: Sequence[TaskRecord], problem: Problem | None, schema: Mapping[str, Any] | None
) -> Result:
    """Build the result. `problem`: why the iteration stopped early; `schema`: what the answer has to fit."""
    said = end.answer if end is not None else None
    status = end.result.status if end is not None and end.result is not None else "failed"
    if said is None or status != "completed" or said.outcome in (Outcome.FAILED, Outcome.BLOCKED):
        return _without(said, records, problem, schema)
    kept = {key: value for key, value in said.metadata.items() if key == "warnings"}
    result = replace(said, metadata=kept)
    if problem is None:
        return result
    return replace(result, outcome=Outcome.PARTIAL, reason=problem.type, errors=(problem, *said.errors))


def _without(
    said: Result | None, records: Sequence[TaskRecord], problem: Problem | None, schema: Mapping[str, Any] | None
) -> Result:
    """Build the result without a completer."""
    own = said.errors[0] if said is not None and said.errors else Problem("failed", "the completer gave no answer")
    errors = tuple(filter(None, (problem, own)))
    text = joined(records) or joined(records, FAILED)
    reason = (problem or own).type
    if not text or (schema is not None and reason not in BUDGETS):
        return replace(failed(errors[0], text), errors=errors)
    partly = Result(Outcome.PARTIAL, summarise(text), text, reason, errors=errors)
    return partly.stamped(warnings=[NO_COMPLETER, *([FORMLESS] if schema is not None else [])])


def joined(records: Sequence[TaskRecord], status: str = COMPLETED) -> str:
    """The results of all tasks with a status, concatenated."""
    brought = (record.result for record in records if record.status == status and record.result is not None)
    return "\n\n".join(each if isinstance(each, str) else to_json(each, indent=2).decode() for each in brought)
