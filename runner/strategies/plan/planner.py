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
from runner.strategies.child_tracker import Seating
from runner.strategies.compose import digest_of
from runner.strategies.context import Work
from runner.strategies.plan.check import Bounds, Linted, lint, without
from runner.strategies.plan.parse import Blueprint, NotAPlan, PlannedStep, read_blueprint
from runner.strategies.plan.progress import Progress, Version
from runner.strategies.plan.prompts import repair_message, replan_message
from runner.strategies.plan.requests import planner_budget, planner_request
from runner.strategies.plan.schedule import Trigger
from runner.strategies.staff import Staff


class Drafting:
    """Asks planners for the versions of one plan."""

    def __init__(self, work: Work, staff: Staff, seating: Seating, progress: Progress) -> None:
        self._work, self._staff = work, staff
        self._seating, self._progress = seating, progress
        self.problem: Problem | None = None
        """Why there is no version, or no further one."""

    async def draft(self, trigger: Trigger | None, settled: Callable[[str], str]) -> Version | None:
        """Make the next version; None if that failed. `settled` resolves relative dates in tasks."""
        number, prompt, quoted = len(self._progress.versions) + 1, self._work.prompt, self._work.quoted
        if trigger is not None:
            prompt = quoted = self._revising(trigger, f"plan.{number}")
        made: Version | None = None
        for seat in (f"plan.{number}", f"plan.{number}.repair"):
            blueprint = await self._blueprint(seat, prompt)
            if blueprint is None and made is None and not self._progress.versions and self._work.role == PLAN:
                self.problem, blueprint = None, Blueprint(())  # a plan for a route continues without steps
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

    def _revising(self, trigger: Trigger, seat: str) -> str:
        """The message to a planner that revises the plan."""
        steps, work = self._progress.brought(), self._work
        done = digest_of([each for each in steps if each.succeeded], planner_budget(self._staff))
        if done.cut:
            work.recorder.record_nowait(facts.Noticed(work.place, "context.trimmed", done.told(seat)))
        return replan_message(work.quoted, trigger, steps, done)

    async def _blueprint(self, seat: str, prompt: str) -> Blueprint | None:
        try:
            await self._seating.give(seat, planner_request(self._staff, seat, prompt))
        except Refusal as refusal:
            self.problem = Problem(refusal.kind, str(refusal), severity="high", context=refusal.context)
            return None
        await self._seating.repeat_what_was_said()
        await self._seating.until_ended([seat])
        end = self._seating.end_in(seat)
        answer = end.answer if end is not None else None
        if answer is None or end is None or end.result is None or end.result.status != "completed":
            cause = answer.problem if answer is not None else None
            said = cause.message if cause is not None else "it gave no answer"
            self.problem = Problem("planning_failed", f"the planner failed: {said}", severity="high").because_of(cause)
            return None
        try:
            return read_blueprint(answer.text)
        except NotAPlan as error:
            self.problem = Problem("validation", f"the planner's answer holds no plan: {error}")
            return None

    def _linted(self, number: int, blueprint: Blueprint, settled: Callable[[str], str]) -> Linted:
        progress = self._progress
        done = [each.step for each in progress.brought() if each.succeeded]
        bounds = Bounds(
            agents=[entry.name for entry in self._work.catalogue],
            room=max(0, progress.spec.max_steps - progress.begun),
            done=[step.id for step in done],
            taken=[COMPOSER, *(step.id for version in progress.versions for step in version.steps)],
            version=number,
        )
        steps: Sequence[PlannedStep] = blueprint.steps
        if not steps and progress.on_empty == "direct" and not progress.versions:
            steps = [PlannedStep("step_1", bounds.agents[0], self._work.task)]
        settle = [
            replace(step, task=settled(step.task), max_retries=progress.spec.retries_of(step.max_retries)) for step in steps
        ]
        return lint(without(settle, done), bounds)

    def _version(self, number: int, blueprint: Blueprint, linted: Linted, trigger: Trigger | None) -> Version:
        work, versions = self._work, self._progress.versions
        if linted.cut or blueprint.dropped:
            cut = len(linted.cut) + linted.uncounted
            left_out = {"cut": cut, "without_task": blueprint.dropped, "max_steps": self._progress.spec.max_steps}
            work.recorder.record_nowait(facts.Noticed(work.place, "plan.truncated", {"version": number, **left_out}))
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
