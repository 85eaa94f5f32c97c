"""Reading: from a located tree to a document. Expands variables, refuses empty values, validates shapes.

Owns: the order of these steps, and continuing after a fault so that one reading finds all of them.
Must not know: whether names exist or settings fit together. Invariant: a faulty part is removed before the next step, so
that no step reports the consequence of an earlier fault.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from registry.checks.explain import error_path, explain
from registry.specs.agents import SCHEMAS
from registry.specs.document import SECTIONS, Document, with_built_ins
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.sources import Texts
from registry.text.variables import VariableFault, expand

_ENTRY_DEPTH = 2
_ROUNDS = 50
"""Each round removes faulty parts, so a file needs as many rounds as it has levels; this is a backstop."""

_STAND_IN = "?"
"""Replaces a missing or faulty text, so that its neighbours can still be checked. It is not a valid name."""

_STAND_INS: dict[str | int, Any] = {
    "name": _STAND_IN,
    "agent": _STAND_IN,
    "model": _STAND_IN,
    "path": _STAND_IN,
    "agents": [_STAND_IN],
    "stages": [{"name": _STAND_IN, "agents": [_STAND_IN]}],
    "token": "${STAND_IN}",
    "issuer": "https://stand-in.invalid",
    "audience": "https://stand-in.invalid",
}
"""The replacement for every required key."""


def read_document(findings: Findings, environ: Mapping[str, str], texts: Texts) -> Document:
    """Return the valid part of the file as a document; every fault is in the findings. `texts` are those of other files."""
    tree = findings.located.tree
    _expand_all(findings, environ)
    _refuse_empty_values(findings)
    merged = with_built_ins({key: value for key, value in tree.items() if value is not None})
    removed: set[TreePath] = set()
    for _ in range(_ROUNDS):
        try:
            return Document.model_validate(merged, context=texts)
        except ValidationError as error:
            merged = copy.deepcopy(merged)
            for detail in filter(_is_fault, error.errors(include_url=False)):
                _report(findings, detail, removed)
                removed.add(_repair(merged, detail))
    return Document()


def leaves(tree: Any, path: TreePath = ()) -> Iterator[tuple[TreePath, Any]]:
    """Yield all scalars and empty values of a tree, with their paths."""
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from leaves(value, (*path, key))
    elif isinstance(tree, list | tuple) and tree:
        for index, value in enumerate(tree):
            yield from leaves(value, (*path, index))
    else:
        yield path, tree


def put(tree: Any, path: TreePath, value: Any) -> None:
    """Set the value at a path."""
    for step in path[:-1]:
        tree = tree[step]
    tree[path[-1]] = value


def is_reference(path: TreePath) -> bool:
    """Say whether a setting stays a reference to a variable until it is used."""
    if path[0] == "models":
        return len(path) == 3 and path[2] == "api_key"  # section, name, key
    return len(path) == 5 and path[:3] == ("serve", "http", "tokens") and path[4] == "token"


def _expand_all(findings: Findings, environ: Mapping[str, str]) -> None:
    tree = findings.located.tree
    for path, value in list(leaves(tree)):
        if not isinstance(value, str) or is_reference(path):
            continue
        try:
            put(tree, path, expand(value, environ))
        except VariableFault as fault:
            findings.add(path, str(fault), fault.hint)
            _remove(tree, path)


def _refuse_empty_values(findings: Findings) -> None:
    """Refuse a key without a value, which is ambiguous; a section or an entry may be empty."""
    tree = findings.located.tree
    for path, value in list(leaves(tree)):
        if value is not None or _is_in_schema(path):
            continue
        if _may_be_empty(path):
            put(tree, path, {})
        else:
            findings.add(path, "has no value", "remove the key, or give it a value")
            _remove(tree, path)


def _is_in_schema(path: TreePath) -> bool:
    """Say whether a path is inside a JSON schema, where null is an ordinary value."""
    return path[0] == "agents" and any(each in SCHEMAS for each in path[2:-1])  # section, name, settings, and below


def _may_be_empty(path: TreePath) -> bool:
    if path[0] not in SECTIONS or len(path) > _ENTRY_DEPTH:
        return False
    return len(path) < _ENTRY_DEPTH or path[0] not in ("defaults", "context_files", "serve")


def _is_fault(detail: ErrorDetails) -> bool:
    """Say whether an error is not a consequence: a list of faulty elements is also reported as too short."""
    return detail["type"] != "too_short" or not detail["input"]


def _report(findings: Findings, detail: ErrorDetails, removed: set[TreePath]) -> None:
    path = error_path(detail)
    about = [(*detail["loc"], key) for key in detail.get("ctx", {}).get("about", ())]
    if any(path[: len(each)] == each for each in removed) or removed.intersection(about):
        return
    message, hint = explain(detail)
    findings.add(path, message, hint, key=detail["type"] == "extra_forbidden" or path != detail["loc"])


def _repair(tree: Any, detail: ErrorDetails) -> TreePath:
    """Make the rest of the tree valid; return the path that was removed or replaced."""
    path = error_path(detail)
    if detail["type"] == "missing" and path[-1] in _STAND_INS:
        put(tree, path, _STAND_INS[path[-1]])
    else:
        _remove(tree, path)
    return path


def _remove(tree: Any, path: TreePath) -> None:
    """Remove the value at a path; an element of a list is replaced, so that no position shifts."""
    for step in path[:-1]:
        tree = tree[step]
    if isinstance(tree, dict):
        tree.pop(path[-1], None)
    elif isinstance(tree, list) and isinstance(path[-1], int):
        stage = {"name": _STAND_IN, "agents": [_STAND_IN]}
        tree[path[-1]] = stage if path[-2] == "stages" else _STAND_IN
