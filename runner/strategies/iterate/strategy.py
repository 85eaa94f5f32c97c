"""iterate: a planner decides the next tasks, workers carry them out, and so on; a completer gives the answer. All of them
are children of the iteration.

It calls no model itself. Decisions are read from rows: a resumed iteration replays the decided turns without asking a
planner again, and continues at the first open one. A task is spawned gated, as a pending row, and released with all that
is known by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from db.ids import made_at
from registry import AgentSpec, Part
from runner.core.history import Past
from runner.core.spawn import SpawnRequest
from runner.core.verdict import Dismissal
from runner.errors import Refusal
from runner.record import facts
from runner.result import BUDGETS, Problem, Result, failed, resting_on
from runner.roles import COMPLETER, PLANNER
from runner.strategies.child_tracker import Seating
from runner.strategies.conclusion import Conclusion
from runner.strategies.context import Work
from runner.strategies.iterate.answer import answered
from runner.strategies.iterate.decision import Decision, NoDecision, read_decision
from runner.strategies.iterate.objective import Undertaking, undertaking_of
from runner.strategies.iterate.prompts import (
    LIMIT_REACHED,
    STOPPED,
    UNPAID,
    left_out,
    message_of,
    parameters_of,
    state_of,
)
from runner.strategies.iterate.requests import Components
from runner.strategies.iterate.tasks import FAILED, TaskRecord, compressed, concluded

SHARE = 2
"""The state may use at most 1/`SHARE` of a model's context window."""


class Iterate:
    """A running iteration."""

    def __init__(self, work: Work) -> None:
        assert isinstance(work.subject, AgentSpec)
        self._work, self._spec = work, work.subject.iterate
        self._components = Components(work.settings, work.subject, work.catalogue, work.task, work.history)
        self._seating = Seating(work, lambda row: row["step_id"])
        self._tasks: dict[str, str] = {}
        """Tasks by step id, in order."""
        self._at_work: set[str] = set()
        """Steps that were released, now or before a restart."""
        self._left_out = 0
        """The number of tasks that the newest decision had beyond its limit."""
        self._most = self._spec.max_iterations
        self._skills: Sequence[Mapping[str, str]] | None = None
        self._answer: Result | None = None
        self._conclusion = Conclusion(work)

    @property
    def partial_output(self) -> str:
        """Results of the tasks so far, also of cancelled ones; or the completer's answer so far."""
        texts = [self._seating.text_of(seat) for seat in self._tasks]
        return self._seating.text_of(COMPLETER) or "\n\n".join(filter(None, texts))

    def restore(self, past: Past) -> None:
        """Restore children and released tasks from rows. Turns of the execution it continues do not count; a planner that
        gave no decision there is asked again.
        """
        self._seating.restore(past)
        rows, taken = past.children, self._seating.taken
        self._at_work = {row["step_id"] for row in rows if row["status"] == "running"}
        before = [row["step_id"] for row in rows if row["role"] == PLANNER and row["parent_execution_id"] in past.earlier]
        self._most += len(before)
        for seat in before:
            if seat in taken and isinstance(self._decision_in(seat), Problem):
                del taken[seat]

    async def run(self) -> Result:
        """Run until there is an answer, once; a later delivery is only stored."""
        if self._answer is None:
            self._answer = await self._reach()
        await self._seating.read()
        return self._answer

    async def _reach(self) -> Result:
        try:
            about = undertaking_of(self._work, self._components)
        except Refusal as refusal:
            return failed(Problem(refusal.kind, str(refusal), recoverable=False, recommendation=refusal.hint))
        await self._seating.heed_again()
        try:
            problem = await self._pursue(about)
            return await self._conclude(about, problem)
        except Refusal as refusal:
            if refusal.kind == "stopping":
                raise
            problem = Problem(refusal.kind, str(refusal), severity="high", context=refusal.context)
            return failed(replace(problem, recommendation=refusal.hint), self.partial_output)

    # -- plan and work -------------------------------------------------------------------------------------------------

    async def _pursue(self, about: Undertaking) -> Problem | None:
        """Alternate decisions and tasks; returns why it stopped early, or None when the planner finished."""
        for turn in count(1):
            seat = f"plan.{turn}"
            if seat not in self._seating.taken:
                why = self._seating.why_stop
                if why is not None:
                    return Problem(why, STOPPED.format(reason=why))
                if turn > self._most:
                    return Problem("max_iterations", LIMIT_REACHED.format(count=self._spec.max_iterations))
            decision = await self._decide(turn, seat, about)
            if isinstance(decision, Problem):
                return decision
            if not decision.tasks:
                return None
            await self._carry_out(decision, about)
        raise AssertionError("counting never ends")

    async def _decide(self, turn: int, seat: str, about: Undertaking) -> Decision | Problem:
        work, seating = self._work, self._seating
        asked = seat not in seating.taken
        if asked:
            work.set_activity(f"planning the next tasks (turn {turn})")
            self._keep_price(about)
            parts = {"skills": await self._worker_skills(), "executionState": self._state("planner")}
            told = (self._spec.planner, about, parts)
            await seating.give(seat, self._components.planner(seat, message_of(*told), parameters_of(*told)))
            await seating.repeat_what_was_said()
        await seating.until_ended([seat])
        decision = self._decision_in(seat)
        if isinstance(decision, Decision) and (asked or not self._was_told(decision)):
            work.recorder.record_nowait(
                facts.Noticed(work.place, "iterate.decided", {"iteration": turn, **decision.told()})
            )
        return decision

    def _decision_in(self, seat: str) -> Decision | Problem:
        """The decision of a planner, or why there is none."""
        end = self._seating.end_in(seat)
        answer = end.answer if end is not None and end.result is not None and end.result.status == "completed" else None
        if answer is None or answer.outcome in ("failed", "blocked"):
            said = end.answer if end is not None else None
            cause = said.problem if said is not None else None
            why = cause.message if cause is not None else "it gave no answer"
            kind = self._seating.why_stop or "planning_failed"
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
        return following in self._seating.taken

    async def _carry_out(self, decision: Decision, about: Undertaking) -> None:
        """Run the tasks of a decision; every task has a row before the first one starts."""
        self._left_out = decision.dropped
        first = len(self._tasks) + 1
        seats = [f"task.{number}" for number in range(first, first + len(decision.tasks))]
        self._tasks |= dict(zip(seats, decision.tasks, strict=True))
        for seat in seats:
            await self._seating.give(seat, self._components.worker(seat, self._tasks[seat]))
        if decision.parallel:
            for seat in seats:
                self._begin(seat, about)
            await self._until_ended(seats)
            return
        for seat in seats:
            self._begin(seat, about)
            await self._until_ended([seat])

    async def _until_ended(self, seats: Sequence[str]) -> None:
        await self._seating.repeat_what_was_said()
        await self._seating.until_ended(seats)

    def _begin(self, seat: str, about: Undertaking) -> None:
        """Release a worker, unless it has started or nothing new may start."""
        seating, work = self._seating, self._work
        if seating.end_in(seat) is not None or seat in self._at_work:
            return
        child, why = seating.taken[seat], seating.why_stop
        if why is None:
            work.set_activity(f"{seat}: {self._tasks[seat]}")
            self._keep_price(about)
            parts = {"task": self._tasks[seat], "executionState": self._state("worker")}
            try:
                work.children.release(child, message_of(self._spec.worker, about, parts), None)
                self._at_work.add(seat)
                return
            except Refusal as refusal:
                if refusal.kind != "budget":
                    problem = Problem(refusal.kind, str(refusal), recoverable=False, context=refusal.context)
                    work.children.dismiss(child, Dismissal("blocked", replace(problem, recommendation=refusal.hint)))
                    return
                seating.unpaid = why = refusal.context["reason"]
        work.children.dismiss(child, Dismissal("skipped", Problem(why, "the iteration ended before this task started")))

    # -- answer --------------------------------------------------------------------------------------------------------

    async def _conclude(self, about: Undertaking, problem: Problem | None) -> Result:
        work, seating = self._work, self._seating
        records = self._records()
        if problem is not None and not records:
            return failed(problem)
        work.set_activity("answering")
        request = self._completer(about, problem)
        if over := self._conclusion.over(request):
            request = self._completer(about, problem, over)
        self._conclusion.hand_over()
        await seating.give(COMPLETER, request)
        await seating.repeat_what_was_said()
        await seating.until_ended([COMPLETER])
        if seating.unpaid is not None and problem is None:
            problem = Problem(seating.unpaid, UNPAID.format(reason=seating.unpaid))
        result = answered(seating.end_in(COMPLETER), records, problem, self._components.who("completer").output_schema)
        ends = map(seating.end_in, self._tasks)
        return resting_on(result, [end.answer for end in ends if end is not None])

    def _completer(self, about: Undertaking, problem: Problem | None, less: int = 0) -> SpawnRequest:
        """Request the completer; its state is cut by `less` tokens."""
        state = self._state("completer", less)
        if problem is not None:  # in addition to the kept records
            state["tasks"].append(TaskRecord("Reach the objective", FAILED, error=problem.message).shown())
        told = (self._spec.completer, about, {"executionState": state})
        return self._components.completer(message_of(*told), parameters_of(*told))

    def _keep_price(self, about: Undertaking) -> None:
        """Keep the price of a completer that is shown the results so far."""
        if self._conclusion.limited and COMPLETER not in self._seating.taken:
            told = (self._spec.completer, about, {"executionState": state_of([])})
            ceiling = self._components.window("completer") // SHARE
            known = sum(record.size for record in compressed(self._records(), self._spec, ceiling))
            self._conclusion.keep(self._components.completer(message_of(*told)), known)

    # -- state ---------------------------------------------------------------------------------------------------------

    def _records(self) -> list[TaskRecord]:
        """Records of all tasks, oldest first."""
        records: list[TaskRecord] = []
        for seat, task in self._tasks.items():
            child = self._seating.taken.get(seat)
            born = round(made_at(child).timestamp() * 1000) if child is not None else None
            record, end = TaskRecord(task, created_at=born, seat=seat), self._seating.end_in(seat)
            if end is not None and born is not None and child is not None:
                took = self._work.children.ended[child].elapsed if child in self._work.children.ended else 0.0
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
            self._work.recorder.record_nowait(facts.Noticed(self._work.place, "context.trimmed", told))
        if self._left_out and part != "worker":
            shown.append(left_out(self._left_out))
        return state_of(shown)

    async def _worker_skills(self) -> Sequence[Mapping[str, str]]:
        if self._skills is None:
            self._skills = await self._work.lookups.skills(*self._components.skills())
        return self._skills
