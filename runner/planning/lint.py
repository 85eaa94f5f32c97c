"""Lint: what of a blueprint can be carried out, and what is wrong with the rest.

Owns the checks (agents, ids, dependencies, caps) and the order of the steps. A step with a fault is kept, with the
fault: it gets a row that says why it never ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from registry import fold
from runner.planning.blueprint import PlannedStep

NOBODY = "nobody"
"""The agent of a step that names none."""
LONGEST_NAME = 100
"""Of an agent that a planner made up."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a step cannot be carried out."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class Linted:
    """Steps in an order that respects their dependencies, and what is wrong with some of them."""

    steps: tuple[PlannedStep, ...]
    faults: Mapping[str, Fault]
    """By step id."""
    cut: int = 0
    """Steps left out because there were too many."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a plan may be made of."""

    agents: Sequence[str]
    """Names that may be planned for."""
    room: int
    """Steps it may have."""
    done: Collection[str] = ()
    """Ids of steps of earlier versions that succeeded: they may be depended on."""
    taken: Collection[str] = ()
    """Ids that were used before."""
    version: int = 1


def lint(steps: Iterable[PlannedStep], bounds: Bounds) -> Linted:
    """Check the steps of a blueprint."""
    named = _with_own_ids(list(steps), bounds)
    kept, cut = named[: bounds.room], max(0, len(named) - bounds.room)
    known = {fold(name): name for name in bounds.agents}
    faults: dict[str, Fault] = {}
    checked = []
    for step in kept:
        agent, wanted = known.get(fold(step.agent)), _name(step.agent)
        if agent is None:
            faults[step.id] = Fault("unknown_agent", f"there is no agent `{wanted}`" if wanted else "no agent is named")
        checked.append(replace(step, agent=agent or wanted or NOBODY))
    ids = {step.id for step in checked} | set(bounds.done)
    for step in checked:
        missing = [each for each in step.depends_on if each not in ids]
        if missing:
            names = ", ".join(f"`{each}`" for each in missing)
            faults.setdefault(step.id, Fault("dependency_failed", f"it depends on {names}, which the plan does not have"))
    ordered, circular = _ordered(checked)
    for step in circular:
        message = f"it waits for itself: {', '.join(step.depends_on)}"
        faults.setdefault(step.id, Fault("dependency_failed", message))
    return Linted((*ordered, *circular), faults, cut)


def _name(written: str) -> str:
    """A made-up name as others may be shown it: on one line, not too long."""
    return "".join(letter if letter.isprintable() else " " for letter in written[:LONGEST_NAME]).strip()


def without(steps: Sequence[PlannedStep], done: Iterable[PlannedStep]) -> list[PlannedStep]:
    """The steps that are not done yet: one equal to a completed one, agent and task, is left out."""
    known = {(fold(step.agent), step.task): step.id for step in done}
    same = {step.id: known[key] for step in steps if (key := (fold(step.agent), step.task)) in known}
    kept = [step for step in steps if step.id not in same]
    return [replace(step, depends_on=tuple(same.get(each, each) for each in step.depends_on)) for step in kept]


def _with_own_ids(steps: list[PlannedStep], bounds: Bounds) -> list[PlannedStep]:
    """Steps whose ids nobody has had before; what depends on a renamed one depends on its new name."""
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
    """The steps in the order given as far as dependencies allow, and those that wait for themselves."""
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
