"""plan: a planner makes steps, agents carry them out, a composer words the answer. All of them are children of the plan.

A step is spawned gated, as a pending row, and released when it may start: the whole plan is visible before its first step
runs. All state is in rows, so a resumed plan continues at its next step. `runner/strategies/plan/schedule.py` decides what
follows from a result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from db.rows.plans import PlanStatus
from registry import AgentSpec, OnEmptyPlan
from runner.core.history import History
from runner.core.verdict import Dismissal
from runner.errors import Refusal
from runner.record import facts
from runner.result import Outcome, Problem, Result
from runner.roles import PLAN
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.compose import digest_of
from runner.strategies.context import StrategyContext
from runner.strategies.plan.answer import PlanAnswer
from runner.strategies.plan.confirm import confirmed
from runner.strategies.plan.parse import PlannedStep
from runner.strategies.plan.planner import PlanMaker
from runner.strategies.plan.progress import PlanMarked, Planned, Progress, Version
from runner.strategies.plan.prompts import step_message
from runner.strategies.plan.requests import step_budget, step_request
from runner.strategies.plan.schedule import Schedule, Trigger
from runner.strategies.staff import Staff


class Plan:
    """A running plan."""

    def __init__(self, context: StrategyContext) -> None:
        assert isinstance(context.subject, AgentSpec)
        self._context = context
        self._tracker = ChildTracker(context, lambda row: row["step_id"])
        self._progress = Progress(context.subject.plan, self._tracker, _on_empty(context))
        self._staff = Staff.of(context)
        self._maker = PlanMaker(context, self._staff, self._tracker, self._progress)
        self._plan_answer = PlanAnswer(context, self._staff, self._tracker, self._progress)
        self._answer: Result | None = None

    @property
    def partial_output(self) -> str:
        """Results of the steps so far, also of those cancelled with the plan."""
        return "\n\n".join(text for step in self._progress.steps if (text := self._tracker.text_of(step)))

    def restore(self, history: History) -> None:
        """Restore the plan and its progress from rows."""
        self._tracker.restore(history)
        self._progress.restore(history)

    async def run(self) -> Result:
        """Plan, run the steps, revise, and compose an answer, once; a later delivery is only stored."""
        if self._answer is None:
            self._answer = await self._come_to_an_end()
        await self._tracker.read()
        return self._answer

    async def _come_to_an_end(self) -> Result:
        """Run to the answer; a plan that is stopped, or times out, is marked failed."""
        answer: Result | None = None
        try:
            answer = await self._work_out()
            return answer
        finally:
            if answer is None and not self._context.lookups.resumes_elsewhere():
                context = self._context
                context.recorder.record_nowait(facts.PlanGivenUp(context.place, context.epoch, self._number))

    async def _work_out(self) -> Result:
        if self._progress.versions and self._progress.status is None:  # taken over from the execution it continues
            await self._planned(self._progress.current, PlanStatus.EXECUTING)
        await self._tracker.reapply_wrap_up()
        self._plan_answer.keep_price()
        trigger = await self._carry_out() if self._progress.versions else None
        while not self._progress.versions or trigger is not None:
            if not await self._advance(trigger):
                break
            trigger = await self._carry_out()
        return await self._conclude()

    # -- plan ----------------------------------------------------------------------------------------------------------

    async def _advance(self, trigger: Trigger | None) -> bool:
        """Make the next version; False if there is none."""
        context = self._context
        if trigger is None:
            context.set_activity("planning")
            await self._planned(Version(1), PlanStatus.PLANNING)
        else:
            context.set_activity(f"revising the plan: {trigger.reason}")
            await self._mark(PlanStatus.REPLANNING, trigger=trigger.shown())
        version = await self._maker.draft(trigger, context.settle_dates)
        if version is None:
            return False
        await self._planned(version, PlanStatus.EXECUTING)
        self._progress.versions.append(version)
        return True

    # -- run steps -----------------------------------------------------------------------------------------------------

    async def _carry_out(self) -> Trigger | None:
        """Run the steps of the newest version; returns the reason to replan, or None when it is finished."""
        await self._spawn_steps()
        while True:
            await self._tracker.read()
            if self._tracker.why_stop is not None:
                return None
            trigger, begins = self._trigger(), list[PlannedStep]()
            if trigger is None:
                course = self._progress.course()
                if course.lost:
                    return None
                self._block(course)
                self._plan_answer.keep_price()
                begins = self._progress.course().startable()
                await self._start(begins)
            running = self._progress.course().running
            if running:
                await self._tracker.until_ended(running, one=True)
            elif not begins:
                return trigger

    async def _spawn_steps(self) -> None:
        """Spawn every step before the first one starts; impossible and replaced steps are dismissed with a reason."""
        version = self._progress.current
        self._skip(Problem("replaced", "a newer version of the plan replaced it"), but=[step.id for step in version.steps])
        for step in version.steps:
            await self._tracker.spawn_step(step.id, step_request(self._staff, step))
            if step.id in version.cut:
                self._dismiss(step.id, Dismissal("skipped", self._progress.beyond_limit))
                continue
            fault = version.faults.get(step.id)
            problem = Problem(fault.type, fault.message) if fault is not None else self._refusal(step)
            if problem is not None:
                self._dismiss(step.id, Dismissal("blocked", problem))
        await self._tracker.repeat_messages()

    def _refusal(self, step: PlannedStep) -> Problem | None:
        """Why the agent of a step may never start; None if it may, or if the reason is only temporary."""
        try:
            self._context.children.admit(step.agent)
        except Refusal as refusal:
            passes = refusal.kind in ("wrapping_up", "limit")
            return None if passes else Problem(refusal.kind, str(refusal), context=refusal.context)
        return None

    async def _start(self, steps: Sequence[PlannedStep]) -> None:
        for step in sorted(steps, key=lambda each: each.confirm):  # steps without an approval start first
            self._context.set_activity(f"step {step.id}: {step.agent}")
            child = self._tracker.child_ids[step.id]
            if step.confirm and not await confirmed(self._context, step):
                self._dismiss(step.id, Dismissal("skipped", Problem("denied", "a person did not allow it")))
                continue
            prompt = self._prompt(step)
            try:
                self._context.children.release(child, prompt, await self._known(step, prompt))
            except Refusal as refusal:
                if refusal.kind != "budget":
                    raise
                self._tracker.unpaid = refusal.context["reason"]
                return
            self._progress.at_work.add(step.id)

    def _prompt(self, step: PlannedStep) -> str:
        """The first message of a step: its task and earlier results."""
        earlier = digest_of(self._progress.earlier(step.id), step_budget(self._staff, step))
        if earlier.cut:
            self._context.recorder.record_nowait(
                facts.Noticed(self._context.place, "context.trimmed", earlier.told(step.id))
            )
        return step_message(step.task, earlier)

    async def _known(self, step: PlannedStep, prompt: str) -> Result | None:
        """A recent result of the same step, if results may be reused."""
        seconds, context = self._progress.spec.cache_ttl, self._context
        row = await context.lookups.same_step(step.agent, prompt, seconds) if seconds else None
        if row is None:
            return None
        told = {"step_id": step.id, "cached_from": row["id"]}
        context.recorder.record_nowait(facts.Noticed(context.place, "plan.cached", told))
        return Result.of_json(row["result"]).stamped(cached_from=row["id"])

    def _block(self, course: Schedule) -> None:
        for step, broken in course.doomed().items():
            message = f"it depends on {', '.join(f'`{each}`' for each in broken)}, which did not succeed"
            self._dismiss(step, Dismissal("blocked", Problem("dependency_failed", message, context={"depends_on": broken})))

    def _trigger(self) -> Trigger | None:
        if self._maker.problem is not None:
            return None
        return self._progress.trigger(time_left=self._context.allowance.wrap_up is None)

    # -- answer --------------------------------------------------------------------------------------------------------

    async def _conclude(self) -> Result:
        why = self._tracker.why_stop
        self._skip(Problem(why or "not_needed", "the plan ended before this step started"))
        await self._tracker.until_ended(self._progress.steps)
        result = await self._plan_answer.answer(why, self._maker.problem)
        await self._mark(self._final_status(result, why), outcome=result.outcome.value)
        return result

    def _final_status(self, result: Result, why: str | None) -> PlanStatus:
        """The final status: a plan that was cut short, or ended by a failure, has failed, even with results."""
        through = result.outcome is Outcome.PARTIAL and why is None and not self._progress.lost
        return PlanStatus.COMPLETED if result.outcome is Outcome.COMPLETED or through else PlanStatus.FAILED

    # -- record --------------------------------------------------------------------------------------------------------

    def _dismiss(self, step: str, dismissal: Dismissal) -> None:
        if not self._progress.standing(step).over and step not in self._progress.at_work:
            self._progress.dismissed[step] = dismissal
            self._context.children.dismiss(self._tracker.child_ids[step], dismissal)

    def _skip(self, problem: Problem, but: Collection[str] = ()) -> None:
        for step in self._progress.steps:
            if step not in but:
                self._dismiss(step, Dismissal("skipped", problem))

    async def _planned(self, version: Version, status: PlanStatus) -> None:
        context = self._context
        await self._record(
            Planned(context.place, context.epoch, version.row(context.place.id, context.task, status)), status
        )

    async def _mark(self, status: PlanStatus, **more: object) -> None:
        context = self._context
        await self._record(PlanMarked(context.place, context.epoch, self._number, status, more), status)

    @property
    def _number(self) -> int:
        """The number of the current version; 1 while the first one is being made."""
        return max(1, len(self._progress.versions))

    async def _record(self, fact: Planned | PlanMarked, status: PlanStatus) -> None:
        if self._progress.status is status:
            return  # written before a restart
        await self._context.recorder.record_fenced(fact, self._context.place.id, shielded=True)
        self._progress.status = status


def _on_empty(context: StrategyContext) -> OnEmptyPlan:
    """The policy for a plan without steps: answer a direct request; for a route, run its only agent, or say so."""
    assert isinstance(context.subject, AgentSpec)
    if context.role != PLAN:
        return context.subject.plan.on_empty_plan or "answer"
    return context.subject.plan.on_empty_plan or ("direct" if len(context.catalogue) == 1 else "nothing")
