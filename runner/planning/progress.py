"""The progress of a plan: its versions, and how far each step has come. Rows know the same: it is known again from them."""

from __future__ import annotations

from itertools import takewhile

from db.rows.plans import PlanStatus
from db.rows.reads import Record
from db.status import ExecutionStatus
from registry import OnEmptyPlan, PlanSpec
from runner.cause import Dismissal
from runner.past import Past
from runner.planning.course import Course, Standing, Trigger, may_replan
from runner.planning.digest import Brought
from runner.planning.version import Version
from runner.result import Problem
from runner.seating import Seating
from runner.window import Window, windowed


class Progress:
    """What a plan knows. Steps are known by their ids, which no two versions share."""

    def __init__(self, spec: PlanSpec, seating: Seating, on_empty: OnEmptyPlan) -> None:
        self.spec, self._seating, self.on_empty = spec, seating, on_empty
        self.versions: list[Version] = []
        self.at_work: set[str] = set()
        """Steps that were released, now or before a restart."""
        self.dismissed: dict[str, Dismissal] = {}
        self.status: PlanStatus | None = None
        """How far the newest version has come, as rows have it; None before there is any."""

    def recall(self, past: Past) -> None:
        """Know again the plan and how far it had come; what it continues gives its plan on."""
        made = {row["version"]: Version.of_row(row) for row in past.plans if _was_made(row)}
        self.versions = list(made.values())
        own = [row["status"] for row in past.plans if row["execution_id"] not in past.earlier]
        self.status = PlanStatus(own[-1]) if own else None
        running = [row for row in past.children if row["status"] == ExecutionStatus.RUNNING]
        self.at_work = {row["step_id"] for row in running if row["parent_execution_id"] not in past.earlier}

    @property
    def current(self) -> Version:
        """The newest version."""
        return self.versions[-1]

    @property
    def steps(self) -> list[str]:
        """Every step that has a row."""
        return [step.id for version in self.versions for step in version.steps if step.id in self._seating.taken]

    def standing(self, step: str) -> Standing:
        """How far a step has come."""
        end = self._seating.end_in(step)
        if end is not None and end.result is not None:
            return Standing(end.result.status, end.answer)
        if step in self.dismissed:
            return Standing(self.dismissed[step].status)
        return Standing(ExecutionStatus.RUNNING if step in self.at_work else ExecutionStatus.PENDING)

    def course(self) -> Course:
        """The newest version and how far it has come."""
        done = frozenset(each.step.id for each in self.brought() if each.succeeded)
        return Course(self.spec, self.current.steps, {step.id: self.standing(step.id) for step in self.current.steps}, done)

    def brought(self) -> list[Brought]:
        """Every step that was not replaced before it began, in order, and what became of it."""
        found: list[Brought] = []
        for version in self.versions:
            for step in version.steps:
                standing = self.standing(step.id)
                if version is self.current or standing.status != ExecutionStatus.SKIPPED:
                    found.append(Brought(step, standing))
        return found

    def earlier(self, step: str) -> list[Brought]:
        """What a step is shown of those before it: the newest results and failures. One after it that could never begin is
        no result.
        """
        brought = self.brought()
        before = {each.step.id for each in takewhile(lambda each: each.step.id != step, brought)}
        over = [
            each
            for each in brought
            if each.standing.result is not None
            and (each.step.id in before or each.standing.status not in (ExecutionStatus.BLOCKED, ExecutionStatus.SKIPPED))
        ]
        return list(windowed(over, Window(max_entries=self.spec.previous_results)))

    @property
    def replaced(self) -> set[str]:
        """Steps of versions that a later one took the place of; one without steps takes the place of nothing."""
        newest = max((number for number, version in enumerate(self.versions) if version.steps), default=0)
        return {step.id for version in self.versions[:newest] for step in version.steps}

    @property
    def lost(self) -> bool:
        """Whether a failure ends the plan that nothing took the place of."""
        failed = any(each.standing.failed and each.step.id not in self.replaced for each in self.brought())
        return failed and self.spec.on_step_failure == "replan"

    @property
    def begun(self) -> int:
        """How many steps ever began, or were not allowed to."""
        idle = (ExecutionStatus.PENDING, ExecutionStatus.SKIPPED)
        return sum(each.standing.status not in idle for each in self.brought())

    @property
    def beyond_limit(self) -> Problem:
        """Why a step is not carried out that the plan has beyond its limit."""
        return Problem("max_steps", f"a plan has at most {self.spec.max_steps} steps", recoverable=False)

    @property
    def unmet(self) -> Trigger | None:
        """What calls for another version although the limits allow none; what failed says so itself."""
        if not self.versions or self._may_replan(time_left=True):
            return None
        trigger = self.course().trigger()
        return trigger if trigger is not None and trigger.type != "step_failed" else None

    def trigger(self, *, time_left: bool) -> Trigger | None:
        """What calls for another version, if something does and there may be one."""
        return self.course().trigger() if self._may_replan(time_left=time_left) else None

    def _may_replan(self, *, time_left: bool) -> bool:
        return may_replan(self.spec, replans=len(self.versions) - 1, begun=self.begun, time_left=time_left)


def _was_made(row: Record) -> bool:
    """Whether a row holds a plan, and not only that one was asked for."""
    return row["status"] != PlanStatus.PLANNING and not (row["status"] == PlanStatus.FAILED and row["steps"] == "[]")
