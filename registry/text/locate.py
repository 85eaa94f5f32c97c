"""YAML text as a plain tree, with the position of every key and value.

Owns: reading YAML and the positions. Must not know: what a key means.
Invariant: keys are texts and unique in their mapping; the tree holds only mappings, lists and plain scalars.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from registry.text.errors import ConfigProblem, TreePath, dotted

MAX_NODES = 100_000
"""Aliases can make a small file enormous; no real configuration comes near this."""

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a file; both numbers count from 1. `file` is empty for the file that was read first."""

    line: int
    column: int
    file: str = ""


@dataclass(slots=True)
class Located:
    """A tree and the positions of its parts."""

    file: str
    tree: dict[str, Any] = field(default_factory=dict)
    keys: dict[TreePath, Position] = field(default_factory=dict)
    values: dict[TreePath, Position] = field(default_factory=dict)

    def position(self, path: TreePath, *, key: bool = False) -> Position | None:
        """Return the position of a path, or else of its nearest parent."""
        if key and path in self.keys:
            return self.keys[path]
        if path in self.values:
            return self.values[path]
        return self.position(path[:-1], key=True) if path else None

    def problem(self, path: TreePath, message: str, hint: str = "", *, key: bool = False) -> ConfigProblem:
        """Return a problem with the value at a path, or with its key."""
        place = self.position(path, key=key)
        line, column = (place.line, place.column) if place else (0, 0)
        return ConfigProblem((place.file if place else "") or self.file, line, column, dotted(path), message, hint)

    def move(self, old: TreePath, new: TreePath) -> None:
        """Move a value and its positions to another path: into a mapping, or to the end of a list.

        Does nothing if there is no value, or the target is neither. An element of a list is also left in place.
        """
        above: Any = self.value(old[:-1])
        if self.value(old) is None and not (isinstance(above, dict) and old[-1] in above):
            return
        outer: Any = self.value(new[:-2])
        below = outer.setdefault(new[-2], {}) if isinstance(outer, dict) else None
        if isinstance(below, list):
            below.append(self.value(old))
        elif isinstance(below, dict):
            below[new[-1]] = above.pop(old[-1])
        else:
            return
        for places in (self.keys, self.values):
            for path in [each for each in places if each[: len(old)] == old]:
                places[(*new, *path[len(old) :])] = places.pop(path)

    def take(self, other: "Located", at: TreePath) -> None:
        """Put another file's tree at a path, with its positions in that file."""
        self.value(at[:-1])[at[-1]] = other.tree
        for own, places in ((self.keys, other.keys), (self.values, other.values)):
            own.update({(*at, *path): replace(place, file=other.file) for path, place in places.items()})

    def others(self) -> list[str]:
        """Return the files that parts of it come from, without the one that was read first."""
        return sorted({place.file for place in self.keys.values()} - {""})

    def value(self, path: TreePath) -> Any:
        """Return the value at a path, or None."""
        here: Any = self.tree
        for step in path:
            if isinstance(here, Mapping):
                here = here.get(step)
            elif isinstance(here, list) and isinstance(step, int) and step < len(here):
                here = here[step]
            else:
                return None
        return here


def locate(text: bytes, file: str) -> tuple[Located, list[ConfigProblem]]:
    """Read YAML; return the tree and the problems of its form. A file that cannot be parsed gives an empty tree."""
    located = Located(file)
    try:
        # The base loader knows no implicit types: `plain` below decides them.
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        return located, [_broken(file, error, text)]
    except (yaml.YAMLError, UnicodeError):
        return located, [ConfigProblem(file, 0, 0, "", "this is not YAML", "save it as YAML in UTF-8")]
    except RecursionError:
        return located, [ConfigProblem(file, 0, 0, "", "mappings and lists are nested too deeply", "flatten the file")]
    if node is None:
        return located, []
    reader = _TreeReader(located)
    tree = reader.read(node, ())
    if isinstance(tree, dict):
        located.tree = tree
    else:
        reader.fault((), node, "the file must be a mapping of sections", "begin with `agents:`")
    return located, reader.problems


def _broken(file: str, error: yaml.MarkedYAMLError, text: bytes) -> ConfigProblem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    reason = error.problem or error.context or "it cannot be read"
    rows = text.splitlines()
    hint = "check indentation, colons and quotes here"
    if 0 < line <= len(rows) and b"${" in rows[line - 1]:
        hint = 'between `[ ]` or `{ }` a reference needs quotes: `"${NAME}"`'
    return ConfigProblem(file, line, column, "", f"broken YAML: {reason}", hint)


class _TreeReader:
    """Turns nodes into the tree and keeps their positions."""

    def __init__(self, located: Located) -> None:
        self.located = located
        self.problems: list[ConfigProblem] = []
        self._open: list[yaml.Node] = []
        self._count = 0

    def fault(self, path: TreePath, node: yaml.Node, message: str, hint: str = "") -> None:
        mark = node.start_mark
        self.problems.append(ConfigProblem(self.located.file, mark.line + 1, mark.column + 1, dotted(path), message, hint))

    def read(self, node: yaml.Node, path: TreePath) -> Any:
        self.located.values[path] = _position(node)
        self._count += 1
        if self._count > MAX_NODES or any(node is each for each in self._open):
            if self._count <= MAX_NODES + 1:
                self._count = MAX_NODES + 2
                self.fault(path, node, "an alias repeats too much, or contains itself", "write it out")
            return None
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return dict(self._pairs(node, path))
            if isinstance(node, yaml.SequenceNode):
                return [self.read(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._scalar(node, path) if isinstance(node, yaml.ScalarNode) else None
        finally:
            self._open.pop()

    def _pairs(self, node: yaml.MappingNode, path: TreePath) -> Iterator[tuple[str, Any]]:
        first: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not _is_name(key):
                self.fault(path, key, "a key must be a text", "put it in quotes")
                continue
            name = str(key.value)
            if name == "<<" and key.style is None:
                self.fault(path, key, "merge keys (`<<`) are not supported", "write the settings out")
                continue
            line = key.start_mark.line + 1
            if name in first:
                message = f"`{name}` is given twice, in line {first[name]} and in line {line}"
                self.fault((*path, name), key, message, "remove or rename one of them")
                continue
            first[name] = line
            self.located.keys[(*path, name)] = _position(key)
            yield name, self.read(value, (*path, name))

    def _scalar(self, node: yaml.ScalarNode, path: TreePath) -> Any:
        if node.tag != f"{_TAG}str":
            self.fault(path, node, f"the tag `{node.tag.replace(_TAG, '!!')}` is not supported", "remove it")
            return ""
        mark = node.start_mark
        tagged = mark.buffer is not None and mark.buffer[mark.pointer] == "!"
        if node.style is None and not tagged:
            return plain(node.value)
        try:
            return _whole(str(node.value))
        except UnicodeError:
            self.fault(path, node, "an escape in it is not a character", "write the character itself")
            return ""


def _is_name(key: yaml.ScalarNode) -> bool:
    """Say whether a key is a text, or a number in the same spelling as its text."""
    value = str(key.value)
    return key.style is not None or isinstance(plain(value), str) or (value.isdecimal() and str(plain(value)) == value)


def _whole(text: str) -> str:
    """Return the text with surrogate pairs joined, as JSON escapes them; raises UnicodeError."""
    if "\0" in text:
        raise UnicodeError
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16")


def _position(node: yaml.Node) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)


NULLS = frozenset({"", "~", "null", "Null", "NULL"})

_FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})?(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?")


def plain(text: str) -> str | int | float | bool | None:
    """Return the value of an unquoted text. Numbers beyond 18 digits stay text, because no setting can hold them."""
    if text in NULLS:
        return None
    if text in _FLAGS:
        return _FLAGS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and any(character.isdigit() for character in text.partition("e")[0].partition("E")[0]):
        return float(text)
    return text
