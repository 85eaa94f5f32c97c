"""Inputs: what an agent is given, held against what it takes.

Owns: the refusal, and what counts as input where somebody can only say a task. Must not know: where the input came from.
Invariant: pure; what is accepted is accepted again, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from registry import AgentSpec, filled_in, misfits
from runner.errors import Refusal
from runner.fenced import FENCE, json_of

GIVEN = ("objective", "skills", "task", "executionState", "execution_state")
"""What an iteration gives its components: whoever starts it need not."""


def fields_of(task: str) -> Mapping[str, Any]:
    """The fields of a task that is an object: whoever dispatches an agent can say no other."""
    if not task.lstrip().startswith(("{", FENCE)):
        return {}
    try:
        said = json_of(task)
    except ValueError:
        return {}  # it only looks like one
    return said if isinstance(said, Mapping) else {}


def accepted_input(agent: AgentSpec, data: Any, task: str = "") -> Any:
    """The input with the agent's defaults filled in; raises Refusal where it does not fit the agent's `input_schema`.

    Without any, the fields of a task that is an object are the input.
    """
    schema = agent.input_schema
    if schema is None:
        return data
    given = filled_in(fields_of(task) if data is None else data, schema)
    if found := misfits(given, schema):
        hint = _taken(schema, said=data is None and bool(task.strip()))
        raise Refusal("invalid_input", f"the input is not what `{agent.name}` takes: {'; '.join(found)}", hint)
    return given or data


def accepted_by_part(agent: AgentSpec, schema: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The input with the defaults of a component filled in; raises Refusal where what it is shown of it does not fit.

    What the iteration itself gives it may be declared there, and is no input.
    """
    if schema is None:
        return inputs
    declared = {name: each for name, each in schema.get("properties", {}).items() if name not in GIVEN}
    required = [name for name in schema.get("required", ()) if name not in GIVEN]
    shown = {name: inputs[name] for name in (*declared, *required) if name in inputs}
    own = {**schema, "properties": declared, "required": required}
    return {**inputs, **(accepted_input(replace(agent, input_schema=own), shown) or {})}


def besides(task: str, inputs: Mapping[str, Any]) -> str:
    """What a task says besides the input: nothing, where it is an object of fields of it."""
    said = fields_of(task)
    return "" if said and all(name in inputs and inputs[name] == value for name, value in said.items()) else task


def _taken(schema: Mapping[str, Any], *, said: bool) -> str:
    needed = schema.get("required", ())
    names = [f"`{name}`{' (required)' if name in needed else ''}" for name in schema.get("properties", {})]
    taken = f"it takes {', '.join(names)}" if names else "it takes an object with named values"
    return f"{taken}; a task that is a JSON object of them will do" if said else taken
