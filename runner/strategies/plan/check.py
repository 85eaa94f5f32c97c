"""Checks a parsed plan: which steps can run, and the faults of the others.

Owns the checks (agents, ids, dependencies, caps) and the order of the steps. A step with a fault is kept, with the fault:
it gets a row that says why it never ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from registry import fold
from runner.strategies.compose import StepTask
from runner.strategies.plan.parse import PlannedStep

NO_AGENT = "nobody"
"""The agent name of a step that names none, as rows have it."""
LONGEST_NAME = 100
"""Characters of an agent name that a planner invented."""
MOST_CUT = 100
"""Steps beyond the limit of a plan that are kept, each with a row that says so; more are only counted."""


@dataclass(frozen=True, slots=True)
class PlanFault:
    """Why a step cannot run."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Linted:
    """The steps, ordered by dependency, and their faults."""

    steps: tuple[PlannedStep, ...]
    """All of them, also those that do not run."""
    faults: Mapping[str, PlanFault]
    """By step id."""
    cut: frozenset[str] = frozenset()
    """Ids of the steps beyond the limit, which do not run; they come last."""
    uncounted: int = 0
    """The number of further steps, which are not kept."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a plan."""

    agents: Sequence[str]
    """Names of the agents that steps may use."""
    room: int
    """The number of steps it may have."""
    done: Collection[str] = ()
    """Ids of successful steps of earlier versions; steps may depend on them."""
    taken: Collection[str] = ()
    """Ids that are in use."""
    version: int = 1


def lint(steps: Iterable[PlannedStep], bounds: Bounds) -> Linted:
    """Check and order the steps of a parsed plan."""
    wished, most = list(steps), bounds.room + MOST_CUT
    known = {fold(name): name for name in bounds.agents}
    named = [_with_agent(step, known) for step in _with_own_ids(wished[:most], bounds)]
    ordered, circular = _ordered(named)
    every = (*ordered, *circular)  # ordered first: a kept step never depends on a cut one
    kept, cut = every[: bounds.room], frozenset(step.id for step in every[bounds.room :])
    faults: dict[str, PlanFault] = {}
    for step in kept:
        if fold(step.agent) not in known:
            named_none = step.agent == NO_AGENT
            message = "the step names no agent" if named_none else f"there is no agent `{step.agent}`"
            faults[step.id] = PlanFault("unknown_agent", message)
    ids = {step.id for step in every} | set(bounds.done)
    for step in kept:
        missing = [each for each in step.depends_on if each not in ids]
        if missing:
            names = ", ".join(f"`{each}`" for each in missing)
            faults.setdefault(step.id, PlanFault("dependency_failed", f"it depends on {names}, which is not in the plan"))
    for step in circular:
        if step.id not in cut:
            message = f"its dependencies form a cycle: {', '.join(step.depends_on)}"
            faults.setdefault(step.id, PlanFault("dependency_failed", message))
    return Linted(every, faults, cut, len(wished) - len(named))


def _with_agent(step: PlannedStep, known: Mapping[str, str]) -> PlannedStep:
    """Correct the spelling of a step's agent; the name of an unknown agent is kept."""
    return replace(step, agent=known.get(fold(step.agent)) or _name(step.agent) or NO_AGENT)


def _name(written: str) -> str:
    """An invented name that is safe to show: on one line, not too long."""
    return "".join(letter if letter.isprintable() else " " for letter in written[:LONGEST_NAME]).strip()


def without(steps: Sequence[PlannedStep], done: Iterable[StepTask]) -> list[PlannedStep]:
    """Remove the steps that repeat a successful one: the same agent and task."""
    known = {(fold(step.agent), step.task): step.id for step in done}
    same = {step.id: known[key] for step in steps if (key := (fold(step.agent), step.task)) in known}
    kept = [step for step in steps if step.id not in same]
    return [replace(step, depends_on=tuple(same.get(each, each) for each in step.depends_on)) for step in kept]


def _with_own_ids(steps: list[PlannedStep], bounds: Bounds) -> list[PlannedStep]:
    """Rename steps whose ids are in use; dependencies follow."""
    taken: set[str] = set(bounds.taken)
    renamed: dict[str, str] = {}
    fresh: list[PlannedStep] = []
    for step in steps:
        own = step.id
        if own in taken:
            own = f"{step.id}_v{bounds.version}" if bounds.version > 1 else f"{step.id}_2"
            number = 2
            while own in taken:
                number += 1
                own = f"{step.id}_{number}"
        if own != step.id and step.id not in {each.id for each in fresh}:
            renamed[step.id] = own
        taken.add(own)
        fresh.append(replace(step, id=own))
    return [replace(step, depends_on=tuple(_renamed(step, each, renamed) for each in step.depends_on)) for step in fresh]


def _renamed(step: PlannedStep, dependency: str, renamed: Mapping[str, str]) -> str:
    new = renamed.get(dependency, dependency)
    return dependency if new == step.id else new


def _ordered(steps: Sequence[PlannedStep]) -> tuple[list[PlannedStep], list[PlannedStep]]:
    """The steps in dependency order, and those in a cycle."""
    waiting, ordered = list(steps), []
    own = {step.id for step in steps}
    placed: set[str] = set()
    while waiting:
        ready = next((step for step in waiting if all(each in placed or each not in own for each in step.depends_on)), None)
        if ready is None:
            break
        waiting.remove(ready)
        ordered.append(ready)
        placed.add(ready.id)
    return ordered, waiting
