"""A version of a plan: the steps that are to be carried out, as its row has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from db.rows import plans
from db.rows.executions import Place
from db.rows.plans import NewPlan, PlanStatus
from db.store.unit import Write
from runner.facts import plan_event
from runner.planning.blueprint import PlannedStep
from runner.planning.course import Trigger
from runner.planning.lint import Fault
from runner.transcript import clean


@dataclass(frozen=True, slots=True)
class Version:
    """What is to be done now. Steps of earlier versions that succeeded are not in it."""

    number: int
    steps: tuple[PlannedStep, ...] = ()
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """Why some of them cannot run, by id."""
    analysis: str = ""
    resolved: Mapping[str, Any] = field(default_factory=dict)
    response_hint: str = ""
    trigger: Trigger | None = None
    cut: frozenset[str] = frozenset()
    """Steps beyond the limit of the plan, by id: they are kept and not carried out."""
    uncounted: int = 0
    """Steps beyond those, of which nothing is kept."""

    def row(self, execution: str, request: str, status: PlanStatus = PlanStatus.EXECUTING) -> NewPlan:
        """Its row."""
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
        """Read a stored version."""
        steps: list[PlannedStep] = []
        faults: dict[str, Fault] = {}
        cut: set[str] = set()
        for each in from_json(row["steps"]):
            fault = each.pop("fault")
            cut.update([each["id"]] if each.pop("cut", False) else [])
            step = PlannedStep(**{**each, "depends_on": tuple(each["depends_on"])})
            steps.append(step)
            if fault is not None:
                faults[step.id] = Fault(**fault)
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


def _shown(fault: Fault | None) -> dict[str, str] | None:
    return asdict(fault) if fault is not None else None


@dataclass(frozen=True, slots=True)
class Planned:
    """A version of a plan was made, or has become what its status says."""

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
    """A version of a plan has a new status."""

    place: Place
    attempt: int
    version: int
    status: PlanStatus
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the event."""

    def write(self) -> Write:
        told = plan_event(self.place, self.status, self.version, self.more)
        return plans.mark(self.place.id, self.attempt, self.version, self.status, [told])
