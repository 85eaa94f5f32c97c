"""The input of an agent: its `input_schema`, a JSON schema of an object.

Owns: the checks of the schema, the defaults it adds to an input, and the value of a word on a command line.
Must not know: where inputs come from. Invariant: filling in an input twice changes nothing.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

from registry.checks.output_schema import faults, misfits
from registry.specs.document import Document
from registry.text.errors import TreePath
from registry.text.findings import Findings


def check_input_schemas(findings: Findings, document: Document) -> None:
    """Check that agents' input schemas are valid, and that their defaults fit them."""
    for name, agent in document.agents.items():
        if agent.input_schema is not None:
            _check(findings, ("agents", name, "input_schema"), agent.input_schema)


def _check(findings: Findings, path: TreePath, schema: Mapping[str, Any]) -> None:
    for fault in faults(schema):
        findings.add((*path, *fault.path), fault.message, fault.hint)
    if not findings.sound(*path):
        return
    if schema.get("type", "object") != "object":
        findings.add(
            (*path, "type"),
            "an input schema must describe an object",
            "write `type: object` and list the values under `properties`",
        )
    _check_defaults(findings, path, schema, schema)


def _check_defaults(findings: Findings, path: TreePath, part: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    for key, inner in _properties(part).items():
        here = (*path, "properties", key)
        if not isinstance(inner, Mapping):
            continue
        if "default" in inner and (found := misfits(filled_in(inner["default"], inner), inner, schema)):
            findings.add(
                (*here, "default"), f"the default does not fit the schema: {found[0]}", "change it, or leave it out"
            )
        _check_defaults(findings, here, inner, schema)


def filled_in(value: Any, schema: Any) -> Any:
    """Return an input with defaults for its missing values."""
    if not isinstance(value, Mapping) or not isinstance(schema, Mapping):
        return value
    inner = _properties(schema)
    missing = {key: each for key, each in inner.items() if key not in value and _has_default(each)}
    whole = {**value, **{key: copy.deepcopy(each["default"]) for key, each in missing.items()}}
    return {key: filled_in(each, inner.get(key)) for key, each in whole.items()}


def meant(text: str, key: str, schema: Mapping[str, Any] | None) -> Any:
    """Return the value of a word: as JSON if it is valid JSON, unless the schema accepts only the word itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if schema is None:
        return value
    inner = _properties(schema).get(key, True)
    return text if misfits(value, inner, schema) and not misfits(text, inner, schema) else value


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties", {})
    return found if isinstance(found, Mapping) else {}


def _has_default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema
