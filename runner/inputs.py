"""Inputs: an agent's input, validated against its `input_schema`.

Owns the refusal; it does not know the source of the input. Pure. Invariant: an accepted input is accepted again, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from registry import AgentSpec, filled_in, misfits
from runner.errors import Refusal

GIVEN = ("objective", "skills", "task", "executionState", "execution_state")
"""Fields that an iteration passes to its components; the caller need not give them."""


def accepted_input(agent: AgentSpec, data: Any) -> Any:
    """The input with the agent's defaults filled in; raises Refusal if it does not match the `input_schema`."""
    schema = agent.input_schema
    if schema is None:
        return data
    given = filled_in({} if data is None else data, schema)
    if found := misfits(given, schema):
        raise Refusal(
            "invalid_input",
            f"invalid input for `{agent.name}`: {'; '.join(found)}",
            f"pass {taken_by(schema)}",
        )
    return given or data


def accepted_by_part(agent: AgentSpec, schema: Mapping[str, Any] | None, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The input with a component's defaults filled in; raises Refusal if the part it declares does not match.

    A component may also declare the fields that the iteration passes; they are no input.
    """
    if schema is None:
        return inputs
    declared = {name: each for name, each in schema.get("properties", {}).items() if name not in GIVEN}
    required = [name for name in schema.get("required", ()) if name not in GIVEN]
    shown = {name: inputs[name] for name in (*declared, *required) if name in inputs}
    own = {**schema, "properties": declared, "required": required}
    return {**inputs, **(accepted_input(replace(agent, input_schema=own), shown) or {})}


def taken_by(schema: Mapping[str, Any]) -> str:
    """The fields of a schema, for people."""
    needed = schema.get("required", ())
    names = [f"`{name}`{' (required)' if name in needed else ''}" for name in schema.get("properties", {})]
    return ", ".join(names) or "an object with named values"
