"""The prompts of an iteration: the first messages of its planner, its workers and its completer.

Owns the order of the parts. A part that the component's own instructions do not show is added as a block, so each sees all
of its parts. External text cannot break out of a block, and is never rendered as a template. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from registry import ComponentSpec, to_yaml
from runner.strategies.iterate.decision import MOST_TASKS
from runner.strategies.iterate.objective import Objective, rendered
from runner.strategies.iterate.tasks import FAILED, TaskRecord
from runner.text import escape_blocks, escape_blocks_in

LIMIT_REACHED = "the limit of {count} iterations was reached before the planner finished"
UNPAID = "the budget ran out before all of it was done: {reason}"
STOPPED = "stopped before the planner finished: {reason}"


def left_out(count: int) -> TaskRecord:
    """The record that tells a planner of tasks beyond the limit of one decision."""
    error = f"not started: one decision has at most {MOST_TASKS} tasks; repeat those that are still needed"
    return TaskRecord(f"{count} further tasks of the newest decision", FAILED, error=error)


def message_of(part: ComponentSpec, about: Objective, parts: Mapping[str, Any]) -> str:
    """The first message of a component. `parts` are its own: `skills`, `task` and `executionState`, if it has them."""
    own, inputs = _declared(part), _inputs(part, about)
    values = {**parameters_of(part, about, parts), "execution_state": parts.get("executionState")}
    used = part.instructions.variables() if part.instructions is not None else frozenset()
    said = [rendered(part.instructions, values)] if part.instructions is not None else []
    left = {name: value for name, value in inputs.items() if name not in used and (name in about.given or name in own)}
    blocks = [
        ("objective", escape_blocks(about.objective), {"objective"}),
        ("background", about.background, set()),
        ("input", escape_blocks(to_json(left, indent=2).decode()) if left else "", set()),
        ("skills", _yaml(parts.get("skills")), {"skills"}),
        ("task", escape_blocks(parts.get("task") or ""), {"task"}),
        ("execution_state", _yaml(parts.get("executionState")), {"executionState", "execution_state"}),
    ]
    return "\n\n".join(
        [
            *said,
            *(f"<{name}>\n{text.strip()}\n</{name}>" for name, text, names in blocks if text and used.isdisjoint(names)),
        ]
    )


def parameters_of(part: ComponentSpec, about: Objective, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a component: its visible input, the objective and its own parts."""
    return {**_inputs(part, about), "objective": about.objective, **parts}


def _declared(part: ComponentSpec) -> frozenset[str]:
    return frozenset((part.input_schema or {}).get("properties", {}))


def _inputs(part: ComponentSpec, about: Objective) -> dict[str, Any]:
    return {name: value for name, value in about.inputs.items() if name in about.declared | _declared(part)}


def state_of(records: Sequence[TaskRecord]) -> dict[str, Any]:
    return {"tasks": [record.shown() for record in records]}


def _yaml(value: Any) -> str:
    return to_yaml(escape_blocks_in(value)) if value else ""
