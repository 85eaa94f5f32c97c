"""The words of an iteration: what its planner, its workers and its completer are told.

Owns the order of the parts, and that each sees all it is to see: what its own instructions do not show is added in blocks.
Text from outside cannot break out of a block, and is never a template itself. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from registry import ComponentSpec, to_yaml
from runner.strategies.iterate.decision import MOST_TASKS
from runner.strategies.iterate.objective import Undertaking, rendered
from runner.strategies.iterate.tasks import FAILED, TaskRecord
from runner.text import inert, inert_data

LIMIT_REACHED = "the limit of {count} iterations was reached before the planner said it was finished"
UNPAID = "the budget did not pay for all of it: {reason}"
STOPPED = "it was stopped before the planner said it was finished: {reason}"


def left_out(count: int) -> TaskRecord:
    """What is told of tasks that were more than one turn may bring."""
    error = f"not begun: one decision has at most {MOST_TASKS} tasks; name those again that are still wanted"
    return TaskRecord(f"{count} further tasks of the newest decision", FAILED, error=error)


def message_of(part: ComponentSpec, about: Undertaking, parts: Mapping[str, Any]) -> str:
    """The first message of a component. `parts` are its own: `skills`, `task`, `executionState`, as far as it has them."""
    own, inputs = _declared(part), _inputs(part, about)
    values = {**parameters_of(part, about, parts), "execution_state": parts.get("executionState")}
    used = part.instructions.variables() if part.instructions is not None else frozenset()
    said = [rendered(part.instructions, values)] if part.instructions is not None else []
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


def _yaml(value: Any) -> str:
    return to_yaml(inert_data(value)) if value else ""
