"""The objective of an iteration, and the other parts of a prompt that all its components share.

Owns the objective, which input each component sees, the background, and which agents cannot be components. Pure. Invariant:
it is derived from rows and configuration, so a resumed iteration has the same objective.
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
from runner.strategies.context import StrategyContext
from runner.strategies.iterate.requests import PARTS, IterateRequests
from runner.text import BYTES_PER_TOKEN, cut_mark, escape_blocks, fitting

SHARE = 4
"""The background may use at most 1/`SHARE` of the smallest context window."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective, input and background that all components of an iteration share."""

    objective: str
    given: Mapping[str, Any] = field(default_factory=dict)
    """Input that the objective does not show, by name."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """All input, by name."""
    declared: frozenset[str] = frozenset()
    """Names of the input that every component may see."""
    background: str = ""
    """Context from the caller beside the task, such as earlier results; its blocks are escaped already."""


def undertaking_of(context: StrategyContext, components: IterateRequests) -> Objective:
    """Build the objective of an execution; raises Refusal if a component is not possible or lacks input."""
    agent, spec = components.agent, components.agent.iterate
    if context.limits.cycle_check:
        _refuse_cycles(context, components)
    taken = accepted_input(agent, _own_input(context))
    inputs: Mapping[str, Any] = taken if isinstance(taken, Mapping) else {}
    for part in spec.components:
        inputs = accepted_by_part(agent, part.input_schema, inputs)
    declared = frozenset((agent.input_schema or {}).get("properties", {}))
    known = {name: value for name, value in inputs.items() if name in declared}
    objective = objective_of(spec.objective, context.task, known)
    if not objective.strip():
        raise Refusal("invalid_input", f"`{agent.name}` has no objective", "give it a task, or set `iterate.objective`")
    shown = spec.objective.variables() if spec.objective is not None else frozenset()
    given = {name: value for name, value in known.items() if name not in shown}
    return Objective(objective, given, inputs, declared, _background(context, components))


def _own_input(context: StrategyContext) -> Any:
    """The input from the caller: a step has none of its own, and the context that a command adds is left out."""
    if context.role == DIRECT and isinstance(context.input, Mapping):
        return {name: value for name, value in context.input.items() if name not in TOLD}
    return context.input if context.role != STEP else None


def _refuse_cycles(context: StrategyContext, components: IterateRequests) -> None:
    """Refuse a component that is also an ancestor; built-in components are exempt, as iterations may nest."""
    for each in map(components.who, PARTS):
        if not is_component(each.name, each.description):
            not_in_path(context.node.path, each.name, context.node.delegation_path)


def _background(context: StrategyContext, components: IterateRequests) -> str:
    """The caller's context beside task and input; empty if the first message holds nothing else."""
    if context.role == ROOT or context.prompt == first_message(context.task, context.input):
        return ""
    return background_of(context.prompt, context.task, min(map(components.window, PARTS)) // SHARE * BYTES_PER_TOKEN)


def objective_of(template: Template | None, task: str, inputs: Mapping[str, Any]) -> str:
    """Combine the configured objective with the task; without a configured one the task is the objective."""
    if template is None:
        return task
    shown = rendered(template, {"task": task, **inputs})
    told = "task" in template.variables() and "task" not in inputs
    return shown if told or not task.strip() else f"{shown.rstrip()}\n\n{escape_blocks(task)}"


def background_of(prompt: str, task: str, most: int) -> str:
    """The part of a first message after the task, cut to `most` bytes."""
    said = "" if prompt == clean(task) else prompt.removeprefix(escape_blocks(task)).strip()
    kept = fitting(said, most)
    return kept if len(kept) == len(said) else kept + cut_mark(len(kept), len(said), None)


def rendered(template: Template, values: Mapping[str, Any]) -> str:
    """Render a template with escaped values; raises Refusal if the text becomes too long."""
    try:
        return template.render(values, escape_blocks)
    except TooMuch as error:
        raise Refusal("invalid_input", str(error), error.hint) from error
