"""The words of an iteration: what its planner, its workers and its completer are told.

Owns the order of the parts, and that each sees all it is to see: what its own instructions do not show is added in blocks.
Text from outside cannot break out of a block, and is never a template itself. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from registry import ComponentSpec, Template, TooMuch, to_yaml
from runner.errors import Refusal
from runner.excerpt import cut_mark, fitting
from runner.inert import inert
from runner.iterating.records import TaskRecord
from runner.transcript import clean

LIMIT_REACHED = "the limit of {count} iterations was reached before the planner said it was finished"
STOPPED = "it was stopped before the planner said it was finished: {reason}"


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


def objective_of(template: Template | None, task: str, inputs: Mapping[str, Any]) -> str:
    """What is to be reached: as configured, and what whoever asked says of it. The task itself where nothing is."""
    if template is None:
        return task
    shown = _rendered(template, {"task": task, **inputs})
    told = "task" in template.variables() and "task" not in inputs
    return shown if told or not task.strip() else f"{shown.rstrip()}\n\n{inert(task)}"


def background_of(prompt: str, task: str, most: int) -> str:
    """What a first message says beside the task, as much of it as fits into so many bytes."""
    said = "" if prompt == clean(task) else prompt.removeprefix(inert(task)).strip()
    kept = fitting(said, most)
    return kept if len(kept) == len(said) else kept + cut_mark(len(kept), len(said), None)


def message_of(part: ComponentSpec, about: Undertaking, parts: Mapping[str, Any]) -> str:
    """The first message of a component. `parts` are its own: `skills`, `task`, `executionState`, as far as it has them."""
    own, inputs = _declared(part), _inputs(part, about)
    values = {**parameters_of(part, about, parts), "execution_state": parts.get("executionState")}
    used = part.instructions.variables() if part.instructions is not None else frozenset()
    said = [_rendered(part.instructions, values)] if part.instructions is not None else []
    left = {name: value for name, value in inputs.items() if name not in used and (name in about.given or name in own)}
    blocks = [
        ("objective", inert(about.objective), {"objective"}),
        ("background", about.background, set()),
        ("input", inert(to_json(left, indent=2).decode()) if left else "", set()),
        ("skills", _yaml(parts.get("skills")), {"skills"}),
        ("task", inert(parts.get("task") or ""), {"task"}),
        ("execution_state", _yaml(parts.get("executionState")), {"executionState", "execution_state"}),
    ]
    return "\n\n".join(
        [
            *said,
            *(f"<{name}>\n{text.strip()}\n</{name}>" for name, text, names in blocks if text and used.isdisjoint(names)),
        ]
    )


def parameters_of(part: ComponentSpec, about: Undertaking, parts: Mapping[str, Any]) -> dict[str, Any]:
    """What a component is told, by name: the input it may see, the objective and its own parts."""
    return {**_inputs(part, about), "objective": about.objective, **parts}


def _declared(part: ComponentSpec) -> frozenset[str]:
    return frozenset((part.input_schema or {}).get("properties", {}))


def _inputs(part: ComponentSpec, about: Undertaking) -> dict[str, Any]:
    return {name: value for name, value in about.inputs.items() if name in about.declared | _declared(part)}


def state_of(records: Sequence[TaskRecord]) -> dict[str, Any]:
    """The execution state."""
    return {"tasks": [record.shown() for record in records]}


def _rendered(template: Template, values: Mapping[str, Any]) -> str:
    try:
        return template.render(values, inert)
    except TooMuch as error:
        raise Refusal("invalid_input", str(error), error.hint) from error


def _yaml(value: Any) -> str:
    return inert(to_yaml(value)) if value else ""
