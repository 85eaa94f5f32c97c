"""Inputs: what an agent is given, held against what it takes.

Owns: the refusal. Must not know: where the input came from. Invariant: pure; what is accepted is accepted again, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from registry import AgentSpec, filled_in, misfits
from runner.errors import Refusal

GIVEN = ("objective", "skills", "task", "executionState", "execution_state")
"""What an iteration gives its components: whoever starts it need not."""


def accepted_input(agent: AgentSpec, data: Any) -> Any:
    """The input with the agent's defaults filled in; raises Refusal where it does not fit the agent's `input_schema`."""
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


def taken_by(schema: Mapping[str, Any]) -> str:
    """What a schema asks for, in words."""
    needed = schema.get("required", ())
    names = [f"`{name}`{' (required)' if name in needed else ''}" for name in schema.get("properties", {})]
    return ", ".join(names) or "an object with named values"
