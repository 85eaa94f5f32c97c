"""Filters, tests and comparisons of templates.

Owns: the result of each for a value, and the text form of a value. Must not know: the syntax of templates.
Invariant: each takes any JSON value and returns one; none raises, keeps state or uses more than its arguments. A missing
value is null, and null is empty.
"""

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

import yaml

Filter = Callable[..., Any]


def text_of(value: Any) -> str:
    """Return the text form of a value: empty for null, JSON for anything but a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else _encoded(value)


def attribute(value: Any, key: Any) -> Any:
    """Return a member of a mapping or an element of a list, else null: values have no other attributes."""
    if isinstance(value, Mapping):
        return value.get(key) if isinstance(key, str | int) else None
    if isinstance(value, list | tuple) and isinstance(key, int) and not isinstance(key, bool):
        return value[key] if -len(value) <= key < len(value) else None
    return None


def elements(value: Any) -> list[Any]:
    """Return the items of a loop: the elements of a list or the keys of a mapping, else none."""
    return list(value) if isinstance(value, Mapping | list | tuple) else []


_FAST: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_FAST):  # type: ignore[misc] # which of the two it is shows when it runs
    """YAML for readers: texts of several lines are blocks."""


def _block(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _block)


def to_yaml(value: Any) -> str:
    if not isinstance(value, Mapping | list | tuple):
        return text_of(value)
    try:  # through JSON, so that there are no anchors or tags
        plain = json.loads(json.dumps(value, default=str))
        return str(yaml.dump(plain, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10**6)).rstrip("\n")
    except (yaml.YAMLError, RecursionError, ValueError):
        return _encoded(value)


def _json(value: Any) -> str:
    return _encoded(value, indent=2)


def _encoded(value: Any, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    except (RecursionError, ValueError):
        return '"nested too deeply"'


def _default(value: Any, instead: Any = "", falsy: Any = False) -> Any:
    return instead if value is None or (falsy and not value) else value


def _join(value: Any, between: Any = "") -> str:
    return text_of(between).join(text_of(each) for each in elements(value))


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | Mapping | list | tuple) else 0


def _end(index: int) -> Filter:
    return lambda value: next(iter(elements(value)[index:]), None)


def _spelt(change: Callable[[str], str]) -> Filter:
    return lambda value: change(text_of(value))


FILTERS: Mapping[str, tuple[Filter, int]] = {
    "yaml": (to_yaml, 0),
    "yaml.stringify": (to_yaml, 0),
    "json": (_json, 0),
    "json.stringify": (_json, 0),
    "default": (_default, 2),
    "join": (_join, 1),
    "length": (_length, 0),
    "first": (_end(0), 0),
    "last": (_end(-1), 0),
    "items": (lambda value: [list(pair) for pair in value.items()] if isinstance(value, Mapping) else [], 0),
    "upper": (_spelt(str.upper), 0),
    "lower": (_spelt(str.lower), 0),
    "capitalize": (_spelt(str.capitalize), 0),
    "trim": (_spelt(str.strip), 0),
}
"""The filters by name, and how many arguments each may have."""

TESTS: Mapping[str, Callable[[Any], bool]] = {
    "defined": lambda value: value is not None,
    "undefined": lambda value: value is None,
    "none": lambda value: value is None,
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "mapping": lambda value: isinstance(value, Mapping),
    "sequence": lambda value: isinstance(value, list | tuple),
}
"""The tests after `is`."""


def _within(value: Any, container: Any) -> bool:
    if isinstance(container, str):
        return isinstance(value, str) and value in container
    return value in elements(container)


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "in": _within,
    "notin": lambda value, container: not _within(value, container),
}


def compared(how: str, left: Any, right: Any) -> bool:
    """Compare two values; values of different kinds have no order."""
    try:
        return bool(COMPARISONS[how](left, right))
    except (TypeError, RecursionError):
        return False
