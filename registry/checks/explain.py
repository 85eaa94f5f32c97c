"""Validation errors as messages for the author of a configuration.

Owns: the message and hint for each kind of validation error. Must not know: its position in the file.
Invariant: a message shows a value's kind or source, never the value of a variable.
"""

import typing
from collections.abc import Mapping
from typing import Any

from pydantic_core import ErrorDetails

from registry.specs.document import Document
from registry.text.entry import Entry
from registry.text.errors import TreePath
from registry.text.names import listed, nearest
from registry.text.variables import Expanded, shown

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "`true` or `false`",
    "string_type": "a text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}

_NAMED = ("ReferenceEntry", "StageAgentEntry", "SynthesisEntry", "WorkspaceUse")
"""Entries that may also be written as a bare name."""

_TEXTS = ("SourceEntry", "TemplateEntry")
"""Entries that may also be written as a bare text."""


def explain(error: ErrorDetails) -> tuple[str, str]:
    """Return the message and the hint for a validation error."""
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "model_type" and context.get("class_name") in _NAMED:
        return f"a name, or a mapping with a `name`, is expected, not {_kind(value)}", ""
    if kind == "model_type" and context.get("class_name") in _TEXTS:
        return f"a text, or a mapping with `url` or `content`, is expected, not {_kind(value)}", ""
    if kind in _EXPECTED:
        return f"{_EXPECTED[kind]} is expected, not {_kind(value)}", _conversion_hint(kind, value)
    if kind == "extra_forbidden":
        return _unknown_key(error["loc"])
    if kind == "missing":
        return f"`{error['loc'][-1]}` is missing", f"add `{error['loc'][-1]}:`"
    if kind == "literal_error":
        return _not_one_of(value, error["loc"])
    if kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        return f"must be {words} {context[bound]:g}, not {shown(value)}", "leave it out for the default"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty", ""
    return error["msg"], str(context.get("hint", ""))


def error_path(error: ErrorDetails) -> TreePath:
    """Return the path of an error; a check of a whole mapping names one of its keys."""
    at = error.get("ctx", {}).get("at")
    return (*error["loc"], *([at] if at else []))


def keys_at(path: TreePath) -> list[str]:
    """Return the keys a mapping at this path may have."""
    entry = _entry_in(_annotation_at(path))
    return [field.alias or name for name, field in entry.model_fields.items()] if entry is not None else []


def _unknown_key(path: TreePath) -> tuple[str, str]:
    key, known = str(path[-1]), keys_at(path[:-1])
    near = nearest(key, known)
    first = f"did you mean `{near}`? " if near else ""
    return f"unknown key `{key}`", f"{first}Known here: {listed(known)}"


def _not_one_of(value: object, path: TreePath) -> tuple[str, str]:
    allowed = _literals(path)
    if not isinstance(value, str):
        return f"one of {listed(allowed)} is expected, not {_kind(value)}", ""
    if value == "chain" and "loop" in allowed:
        return "`chain` is not a strategy of an agent", "write the stages under `agent_chains`"
    near = None if isinstance(value, Expanded) else nearest(value, allowed)
    first = f"did you mean `{near}`? " if near else ""
    return f"{shown(value)} is not allowed here", f"{first}Allowed: {listed(allowed)}"


def _literals(path: TreePath) -> list[str]:
    """Return the texts the field at this path allows, without the empty one."""
    return [text for text in _texts_in(_annotation_at(path)) if text]


def _annotation_at(path: TreePath) -> Any:
    """Return the type of the value at a path: a step is a field, or leads into a mapping or list of one type."""
    here: Any = Document
    for step in path:
        entry = _entry_in(here)
        if entry is not None and isinstance(step, str) and step in entry.model_fields and not _is_dict(here):
            here = entry.model_fields[step].annotation
        elif entry is not None:
            here = entry
    return here


def _texts_in(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [text for argument in typing.get_args(annotation) for text in _texts_in(argument)]


def _entry_in(annotation: Any) -> type[Entry] | None:
    """Return the entry type inside an annotation, however it is wrapped."""
    if typing.get_origin(annotation) is None:
        return annotation if isinstance(annotation, type) and issubclass(annotation, Entry) else None
    return next((found for argument in typing.get_args(annotation) if (found := _entry_in(argument))), None)


def _is_dict(annotation: Any) -> bool:
    return typing.get_origin(annotation) is dict


def _kind(value: object) -> str:
    if isinstance(value, Expanded):
        return f"the value of {shown(value)}"
    if isinstance(value, bool):
        return "a flag"
    names: dict[type, str] = {str: "a text", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "a mapping" if isinstance(value, Mapping) else "nothing")


def _conversion_hint(kind: str, value: object) -> str:
    if kind == "string_type" and isinstance(value, int | float):
        return "put it in quotes"
    if kind in ("int_type", "float_type", "bool_type") and isinstance(value, str) and not isinstance(value, Expanded):
        return "remove the quotes" if value.strip() else ""
    if kind == "tuple_type" and isinstance(value, str):
        return f"write it as a list: `[{'...' if isinstance(value, Expanded) else value}]`"
    return ""
