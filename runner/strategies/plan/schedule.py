"""The schedule of a plan: which steps may start, which can no longer run, and whether a result calls for a new plan.

Pure: from steps and their states to decisions. All limits of a plan are compared here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any, Literal

from pydantic_core import to_json

from db.status import ExecutionStatus
from registry import PlanSpec
from runner.strategies.compose import NOT_BEGUN, StepState
from runner.strategies.plan.parse import PlannedStep

TriggerType = Literal["step_failed", "new_information", "missing_data", "intent_clarified"]

SHOWN_OF_CONTEXT = 2_000
"""Characters that are kept of the output that calls for a new plan."""

_SIGNALLED: dict[str, TriggerType] = {
    "new_information": "new_information",
    "intent_clarified": "intent_clarified",
    "missing_data": "missing_data",
}


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a plan is revised."""

    type: TriggerType
    step_id: str
    reason: str
    new_context: Any = None

    def shown(self) -> dict[str, Any]:
        """The trigger as events and rows have it; long output is cut, as the step's row has all of it."""
        context = self.new_context
        if context is not None and len(text := to_json(context).decode()) > SHOWN_OF_CONTEXT:
            context = f"{text[:SHOWN_OF_CONTEXT]}…"
        return {**asdict(self), "new_context": context}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of the current version, in order, and their states."""

    spec: PlanSpec
    steps: Sequence[PlannedStep]
    standings: Mapping[str, StepState] = field(default_factory=dict)
    done: frozenset[str] = frozenset()
    """Successful steps of earlier versions."""

    def of(self, step: str) -> StepState:
        """The state of a step."""
        return self.standings.get(step, NOT_BEGUN)

    @property
    def explicit(self) -> bool:
        """Whether the plan has dependencies; then they alone decide the order."""
        return any(step.depends_on for step in self.steps)

    @property
    def left(self) -> list[PlannedStep]:
        """Steps that have not started."""
        return [step for step in self.steps if self.of(step.id).status == ExecutionStatus.PENDING]

    @property
    def ahead(self) -> list[PlannedStep]:
        """Steps that have not started and still may: if a failure ends the plan, only those before the failed step."""
        if self.spec.on_step_failure == "continue":
            return self.left
        before = takewhile(lambda step: not self.of(step.id).failed, self.steps)
        return [step for step in before if self.of(step.id).status == ExecutionStatus.PENDING]

    @property
    def running(self) -> list[str]:
        """Ids of the running steps."""
        return [step.id for step in self.steps if self.of(step.id).status == ExecutionStatus.RUNNING]

    def startable(self) -> list[PlannedStep]:
        """The steps that may start now, within the limit of parallel steps."""
        free = self.spec.max_concurrent - len(self.running)
        found: list[PlannedStep] = []
        for step in self.ahead:
            if len(found) >= free:
                break
            if self.explicit:
                ready = all(each in self.done or self.of(each).succeeded for each in step.depends_on)
            else:
                ready = not found and not self.running
            if ready:
                found.append(step)
        return found

    def doomed(self) -> dict[str, list[str]]:
        """Steps that can no longer run, with their failed dependencies; dependents of such steps are included."""
        lost = {step.id for step in self.steps if self.of(step.id).over and not self.of(step.id).succeeded}
        found: dict[str, list[str]] = {}
        for step in self.steps:  # dependencies come before their dependents
            broken = [each for each in step.depends_on if each in lost]
            if broken and step in self.left:
                found[step.id] = broken
                lost.add(step.id)
        return found

    @property
    def lost(self) -> bool:
        """Whether a failed step ends the plan: no step after it runs, and none before it is left."""
        failed = any(self.of(step.id).failed for step in self.steps)
        return self.spec.on_step_failure == "replan" and failed and not self.ahead

    def trigger(self) -> Trigger | None:
        """The reason to replan, if there is one."""
        for step in self.steps:
            standing = self.of(step.id)
            if standing.over:
                found = trigger_of(step.id, standing, steps_left=bool(self.left))
                if found is not None and (found.type != "step_failed" or self.spec.on_step_failure == "replan"):
                    return found
        return None


def trigger_of(step: str, standing: StepState, *, steps_left: bool) -> Trigger | None:
    """The reason to replan from one step: a request for it always counts, an empty or failed result if steps are left."""
    result = standing.result
    signals: Mapping[str, Any] = result.signals if result is not None else {}
    if signals.get("needs_replan"):
        kind = _SIGNALLED.get(str(signals.get("replan_reason")), "new_information")
        return Trigger(
            kind, step, result.summary if result is not None else "", result.output if result is not None else None
        )
    if standing.failed:
        problem = result.errors[0].message if result is not None and result.errors else f"it ended {standing.status}"
        return Trigger("step_failed", step, problem) if steps_left else None
    if signals.get("is_empty") and steps_left and result is not None:
        return Trigger("missing_data", step, result.summary, result.output)
    return None


def may_replan(spec: PlanSpec, *, replans: int, begun: int, time_left: bool) -> bool:
    """Whether the plan may be revised again: replans, steps and time are left."""
    return replans < spec.max_replans and begun < spec.max_steps and time_left
