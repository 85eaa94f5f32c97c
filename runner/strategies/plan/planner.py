"""Asks a planner for steps and turns its answer into a version of the plan. A plan with faults goes back to a planner once;
a step that still has a fault is kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from runner.errors import Refusal
from runner.record import facts
from runner.result import Problem
from runner.roles import COMPOSER, PLAN
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.compose import digest_of
from runner.strategies.context import StrategyContext
from runner.strategies.plan.check import Bounds, Linted, lint, without
from runner.strategies.plan.parse import NotAPlan, PlanDraft, PlannedStep, read_plan
from runner.strategies.plan.progress import Progress, Version
from runner.strategies.plan.prompts import repair_message, replan_message
from runner.strategies.plan.requests import planner_budget, planner_request
from runner.strategies.plan.schedule import Trigger
from runner.strategies.staff import Staff


class PlanMaker:
    """Asks planners for the versions of one plan."""

    def __init__(self, context: StrategyContext, staff: Staff, tracker: ChildTracker, progress: Progress) -> None:
        self._context, self._staff = context, staff
        self._tracker, self._progress = tracker, progress
        self.problem: Problem | None = None
        """Why there is no version, or no further one."""

    async def draft(self, trigger: Trigger | None, settled: Callable[[str], str]) -> Version | None:
        """Make the next version; None if that failed. `settled` resolves relative dates in tasks."""
        number, prompt, quoted = len(self._progress.versions) + 1, self._context.prompt, self._context.quoted
        if trigger is not None:
            prompt = quoted = self._revising(trigger, f"plan.{number}")
        made: Version | None = None
        for step_id in (f"plan.{number}", f"plan.{number}.repair"):
            blueprint = await self._blueprint(step_id, prompt)
            if blueprint is None and made is None and not self._progress.versions and self._context.role == PLAN:
                self.problem, blueprint = None, PlanDraft(())  # a plan for a route continues without steps
            if blueprint is None and made is not None:
                self.problem = None  # there is a plan: its faults are in its steps
            if blueprint is None:
                return made
            linted = self._linted(number, blueprint, settled)
            made = self._version(number, blueprint, linted, trigger)
            if not linted.faults:
                return made
            prompt = repair_message(quoted, linted.faults)
        return made

    def _revising(self, trigger: Trigger, step_id: str) -> str:
        """The message to a planner that revises the plan."""
        steps, context = self._progress.brought(), self._context
        done = digest_of([each for each in steps if each.succeeded], planner_budget(self._staff))
        if done.cut:
            context.recorder.record_nowait(facts.Noticed(context.place, "context.trimmed", done.told(step_id)))
        return replan_message(context.quoted, trigger, steps, done)

    async def _blueprint(self, step_id: str, prompt: str) -> PlanDraft | None:
        try:
            await self._tracker.spawn_step(step_id, planner_request(self._staff, step_id, prompt))
        except Refusal as refusal:
            self.problem = Problem(refusal.kind, str(refusal), severity="high", context=refusal.context)
            return None
        await self._tracker.repeat_messages()
        await self._tracker.until_ended([step_id])
        end = self._tracker.end_of_step(step_id)
        answer = end.answer if end is not None else None
        if answer is None or end is None or end.result is None or end.result.status != "completed":
            cause = answer.problem if answer is not None else None
            said = cause.message if cause is not None else "it gave no answer"
            self.problem = Problem("planning_failed", f"the planner failed: {said}", severity="high").because_of(cause)
            return None
        try:
            return read_plan(answer.text)
        except NotAPlan as error:
            self.problem = Problem("validation", f"the planner's answer holds no plan: {error}")
            return None

    def _linted(self, number: int, blueprint: PlanDraft, settled: Callable[[str], str]) -> Linted:
        progress = self._progress
        done = [each.step for each in progress.brought() if each.succeeded]
        bounds = Bounds(
            agents=[entry.name for entry in self._context.catalogue],
            room=max(0, progress.spec.max_steps - progress.begun),
            done=[step.id for step in done],
            taken=[COMPOSER, *(step.id for version in progress.versions for step in version.steps)],
            version=number,
        )
        steps: Sequence[PlannedStep] = blueprint.steps
        if not steps and progress.on_empty == "direct" and not progress.versions:
            steps = [PlannedStep("step_1", bounds.agents[0], self._context.task)]
        settle = [
            replace(step, task=settled(step.task), max_retries=progress.spec.retries_of(step.max_retries)) for step in steps
        ]
        return lint(without(settle, done), bounds)

    def _version(self, number: int, blueprint: PlanDraft, linted: Linted, trigger: Trigger | None) -> Version:
        context, versions = self._context, self._progress.versions
        if linted.cut or blueprint.dropped:
            cut = len(linted.cut) + linted.uncounted
            left_out = {"cut": cut, "without_task": blueprint.dropped, "max_steps": self._progress.spec.max_steps}
            context.recorder.record_nowait(facts.Noticed(context.place, "plan.truncated", {"version": number, **left_out}))
        return Version(
            number=number,
            steps=linted.steps,
            faults=linted.faults,
            cut=linted.cut,
            uncounted=linted.uncounted,
            analysis=blueprint.analysis,
            resolved=blueprint.resolved,
            response_hint=blueprint.response_hint or (versions[-1].response_hint if versions else ""),
            trigger=trigger,
        )
