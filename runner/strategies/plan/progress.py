"""The progress of a plan: its versions as their rows have them, and the state of each step. Rows restore all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any

from pydantic_core import from_json, to_json

from db.rows import plans
from db.rows.executions import Place
from db.rows.plans import NewPlan, PlanStatus
from db.rows.reads import Record
from db.status import ExecutionStatus
from db.store.unit import Write
from registry import OnEmptyPlan, PlanSpec
from runner.core.history import History
from runner.core.verdict import Dismissal
from runner.messages import clean
from runner.record.facts import plan_event
from runner.result import Problem
from runner.strategies.child_tracker import ChildTracker
from runner.strategies.compose import StepResult, StepState
from runner.strategies.plan.check import PlanFault
from runner.strategies.plan.parse import PlannedStep
from runner.strategies.plan.schedule import Schedule, Trigger, may_replan
from runner.text import Window, windowed


class Progress:
    """The state of a plan. Step ids are unique across versions."""

    def __init__(self, spec: PlanSpec, tracker: ChildTracker, on_empty: OnEmptyPlan) -> None:
        self.spec, self._tracker, self.on_empty = spec, tracker, on_empty
        self.versions: list[Version] = []
        self.at_work: set[str] = set()
        """Steps that were released, now or before a restart."""
        self.dismissed: dict[str, Dismissal] = {}
        self.status: PlanStatus | None = None
        """The stored status of the newest version; None before there is one."""

    def restore(self, history: History) -> None:
        """Restore versions, status and released steps from rows; the versions of a continued execution are taken over."""
        made = {row["version"]: Version.of_row(row) for row in history.plans if _was_made(row)}
        self.versions = list(made.values())
        own = [row["status"] for row in history.plans if row["execution_id"] not in history.earlier]
        self.status = PlanStatus(own[-1]) if own else None
        running = [row for row in history.children if row["status"] == ExecutionStatus.RUNNING]
        self.at_work = {row["step_id"] for row in running if row["parent_execution_id"] not in history.earlier}

    @property
    def current(self) -> Version:
        return self.versions[-1]

    @property
    def steps(self) -> list[str]:
        """Ids of all steps that have a row."""
        return [step.id for version in self.versions for step in version.steps if step.id in self._tracker.child_ids]

    def standing(self, step: str) -> StepState:
        """The state of a step."""
        end = self._tracker.end_of_step(step)
        if end is not None and end.result is not None:
            return StepState(end.result.status, end.answer)
        if step in self.dismissed:
            return StepState(self.dismissed[step].status)
        return StepState(ExecutionStatus.RUNNING if step in self.at_work else ExecutionStatus.PENDING)

    def course(self) -> Schedule:
        """The schedule of the newest version."""
        done = frozenset(each.step.id for each in self.brought() if each.succeeded)
        return Schedule(
            self.spec, self.current.steps, {step.id: self.standing(step.id) for step in self.current.steps}, done
        )

    def brought(self) -> list[StepResult]:
        """All steps in order with their results, without those that were replaced before they started."""
        found: list[StepResult] = []
        for version in self.versions:
            for step in version.steps:
                standing = self.standing(step.id)
                if version is self.current or standing.status != ExecutionStatus.SKIPPED:
                    found.append(StepResult(step, standing))
        return found

    def earlier(self, step: str) -> list[StepResult]:
        """The results that a step is shown: the newest ones and failures. A later step that never started is none."""
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
        """Steps of versions that a later version replaced; a version without steps replaces none."""
        newest = max((number for number, version in enumerate(self.versions) if version.steps), default=0)
        return {step.id for version in self.versions[:newest] for step in version.steps}

    @property
    def lost(self) -> bool:
        """Whether a failed step, which no later version replaced, ends the plan."""
        failed = any(each.standing.failed and each.step.id not in self.replaced for each in self.brought())
        return failed and self.spec.on_step_failure == "replan"

    @property
    def begun(self) -> int:
        """The number of steps that started or were blocked."""
        idle = (ExecutionStatus.PENDING, ExecutionStatus.SKIPPED)
        return sum(each.standing.status not in idle for each in self.brought())

    @property
    def beyond_limit(self) -> Problem:
        """The problem of a step beyond the plan's limit."""
        return Problem("max_steps", f"a plan has at most {self.spec.max_steps} steps", recoverable=False)

    @property
    def unmet(self) -> Trigger | None:
        """A request for a new version that the limits forbid; a failed step reports itself."""
        if not self.versions or self._may_replan(time_left=True):
            return None
        trigger = self.course().trigger()
        return trigger if trigger is not None and trigger.type != "step_failed" else None

    def trigger(self, *, time_left: bool) -> Trigger | None:
        """The reason to replan, if there is one and limits allow it."""
        return self.course().trigger() if self._may_replan(time_left=time_left) else None

    def _may_replan(self, *, time_left: bool) -> bool:
        return may_replan(self.spec, replans=len(self.versions) - 1, begun=self.begun, time_left=time_left)


def _was_made(row: Record) -> bool:
    """Whether a row holds a version, and not only the request for one."""
    return row["status"] != PlanStatus.PLANNING and not (row["status"] == PlanStatus.FAILED and row["steps"] == "[]")


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a plan. Successful steps of earlier versions are not in it."""

    number: int
    steps: tuple[PlannedStep, ...] = ()
    faults: Mapping[str, PlanFault] = field(default_factory=dict)
    """Why some steps cannot run, by id."""
    analysis: str = ""
    resolved: Mapping[str, Any] = field(default_factory=dict)
    response_hint: str = ""
    trigger: Trigger | None = None
    cut: frozenset[str] = frozenset()
    """Ids of the steps beyond the plan's limit: they are kept but do not run."""
    uncounted: int = 0
    """The number of further steps, which are not kept."""

    def row(self, execution: str, request: str, status: PlanStatus = PlanStatus.EXECUTING) -> NewPlan:
        steps = [
            {**asdict(step), "fault": _shown(self.faults.get(step.id)), **({"cut": True} if step.id in self.cut else {})}
            for step in self.steps
        ]
        return NewPlan(
            id=f"{execution}.{self.number}",
            execution_id=execution,
            version=self.number,
            status=status,
            request=clean(request),
            analysis=clean(self.analysis),
            resolved_values=clean(to_json(self.resolved).decode()),
            steps=clean(to_json(steps).decode()),
            response_hint=clean(self.response_hint),
            trigger=clean(to_json(self.trigger.shown()).decode()) if self.trigger is not None else None,
        )

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Version:
        """Restore a version from its row."""
        steps: list[PlannedStep] = []
        faults: dict[str, PlanFault] = {}
        cut: set[str] = set()
        for each in from_json(row["steps"]):
            fault = each.pop("fault")
            cut.update([each["id"]] if each.pop("cut", False) else [])
            step = PlannedStep(**{**each, "depends_on": tuple(each["depends_on"])})
            steps.append(step)
            if fault is not None:
                faults[step.id] = PlanFault(**fault)
        trigger = Trigger(**from_json(row["trigger"])) if row["trigger"] else None
        resolved = from_json(row["resolved_values"])
        return cls(
            number=row["version"],
            steps=tuple(steps),
            faults=faults,
            cut=frozenset(cut),
            analysis=row["analysis"],
            resolved=resolved,
            response_hint=row["response_hint"],
            trigger=trigger,
        )


def _shown(fault: PlanFault | None) -> dict[str, str] | None:
    return asdict(fault) if fault is not None else None


@dataclass(frozen=True, slots=True)
class Planned:
    """A version of a plan was made, or its status changed."""

    place: Place
    attempt: int
    plan: NewPlan

    def write(self) -> Write:
        plan = self.plan
        names = ("id", "agent", "task", "depends_on")
        steps = [{name: each[name] for name in names} for each in from_json(plan.steps)]
        told = plan_event(self.place, plan.status, plan.version, {"steps": steps} if steps else {})
        return plans.keep(plan, self.attempt, [told])


@dataclass(frozen=True, slots=True)
class PlanMarked:
    """The status of a version changed."""

    place: Place
    attempt: int
    version: int
    status: PlanStatus
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the event."""

    def write(self) -> Write:
        told = plan_event(self.place, self.status, self.version, self.more)
        return plans.mark(self.place.id, self.attempt, self.version, self.status, [told])
