"""The undertaking: what all components of an iteration are told, whatever their part in it.

Owns what is to be reached, which input each may see, what came before, and who cannot be a component. Pure. Invariant: what
it is made from stands in rows and in the configuration, so that after a crash it is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry import TOLD, Template, TooMuch, is_component
from runner.core.guard import not_in_path
from runner.errors import Refusal
from runner.inputs import accepted_by_part, accepted_input
from runner.messages import clean
from runner.prompt.system import first_message
from runner.roles import DIRECT, ROOT, STEP
from runner.strategies.context import Work
from runner.strategies.iterate.requests import PARTS, Components
from runner.text import BYTES_PER_TOKEN, cut_mark, fitting, inert

SHARE = 4
"""Of what a model can read, a quarter is for what came before at most."""


@dataclass(frozen=True, slots=True)
class Undertaking:
    """What all components of an iteration are told."""

    objective: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """The input that no part of the objective shows, by name."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """All of the input."""
    declared: frozenset[str] = frozenset()
    """The fields of it that everybody may see."""
    background: str = ""
    """What whoever sent it tells beside the task, such as what was done before; blocks, made inert there."""


def undertaking_of(work: Work, components: Components) -> Undertaking:
    """What an execution undertakes; raises Refusal where nobody can be asked, or is not given what it needs."""
    agent, spec = components.agent, components.agent.iterate
    if work.limits.cycle_check:
        _refuse_cycles(work, components)
    taken = accepted_input(agent, _own_input(work))
    inputs: Mapping[str, Any] = taken if isinstance(taken, Mapping) else {}
    for part in spec.components:
        inputs = accepted_by_part(agent, part.input_schema, inputs)
    declared = frozenset((agent.input_schema or {}).get("properties", {}))
    known = {name: value for name, value in inputs.items() if name in declared}
    objective = objective_of(spec.objective, work.task, known)
    if not objective.strip():
        raise Refusal("invalid_input", f"`{agent.name}` has no objective", "give it a task, or set `iterate.objective`")
    shown = spec.objective.variables() if spec.objective is not None else frozenset()
    given = {name: value for name, value in known.items() if name not in shown}
    return Undertaking(objective, given, inputs, declared, _background(work, components))


def _own_input(work: Work) -> Any:
    """What whoever asks for it gives it: a step has nothing of its own, and what a command tells beside is not given."""
    if work.role == DIRECT and isinstance(work.input, Mapping):
        return {name: value for name, value in work.input.items() if name not in TOLD}
    return work.input if work.role != STEP else None


def _refuse_cycles(work: Work, components: Components) -> None:
    """An agent that is named as a component must not be at work above; built-in ones are, wherever iterations nest."""
    for each in map(components.who, PARTS):
        if not is_component(each.name, each.description):
            not_in_path(work.node.path, each.name, work.node.delegation_path)


def _background(work: Work, components: Components) -> str:
    """What whoever sent it says beside its task and its input: of that each sees what is declared, and no more."""
    if work.role == ROOT or work.prompt == first_message(work.task, work.input):
        return ""
    return background_of(work.prompt, work.task, min(map(components.window, PARTS)) // SHARE * BYTES_PER_TOKEN)


def objective_of(template: Template | None, task: str, inputs: Mapping[str, Any]) -> str:
    """What is to be reached: as configured, and what whoever asked says of it. The task itself where nothing is."""
    if template is None:
        return task
    shown = rendered(template, {"task": task, **inputs})
    told = "task" in template.variables() and "task" not in inputs
    return shown if told or not task.strip() else f"{shown.rstrip()}\n\n{inert(task)}"


def background_of(prompt: str, task: str, most: int) -> str:
    """What a first message says beside the task, as much of it as fits into so many bytes."""
    said = "" if prompt == clean(task) else prompt.removeprefix(inert(task)).strip()
    kept = fitting(said, most)
    return kept if len(kept) == len(said) else kept + cut_mark(len(kept), len(said), None)


def rendered(template: Template, values: Mapping[str, Any]) -> str:
    """A template with values in it, none of which opens or closes a block; raises Refusal where that is too much."""
    try:
        return template.render(values, inert)
    except TooMuch as error:
        raise Refusal("invalid_input", str(error), error.hint) from error
