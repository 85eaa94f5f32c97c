"""Agents in files of their own: a configuration lists the files, and their content is merged into it.

Owns: reading those files, the names of their agents, and their relative paths. Must not know: what a setting means.
Invariant: the result is one tree, without keys of other dialects, in which every value knows its file and line.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from registry.load.reading import leaves, put
from registry.specs.agents import SCHEMAS
from registry.specs.aigne import is_foreign, take_over
from registry.text.errors import ConfigProblem, TreePath
from registry.text.locate import Located, Position, locate
from registry.text.names import Directory
from registry.text.sources import Texts
from registry.text.templates import Unusable, beside

_TEMPLATES = ("objective", "instructions", "answer")
"""The keys of templates."""

_INCLUDE = re.compile(r"\{%[-+]?\s*include\b")


def gather(located: Located, folder: Path) -> list[ConfigProblem]:
    """Merge the agents of other files, and those of another dialect, into the tree; return the problems."""
    problems = _wrapped(located) if is_foreign(located.tree) else []
    listed = located.tree.get("agents")
    if isinstance(listed, list) and listed:
        problems += _read_all(located, listed, Texts(folder))
    agents, servers = located.tree.get("agents"), located.tree.get("mcp_servers")
    known = Directory(servers if isinstance(servers, Mapping) else ())
    for name, entry in agents.items() if isinstance(agents, dict) else ():
        if is_foreign(entry):
            problems += take_over(located, ("agents", name), known)
        _place(located, ("agents", name))
    return problems


def _wrapped(located: Located) -> list[ConfigProblem]:
    """Treat a file with a single agent as a configuration of that agent."""
    whole = Located(located.file, located.tree, located.keys, located.values)
    located.tree, located.keys, located.values = {"agents": {}}, {}, {}
    return list(_add(located, whole))


def _read_all(located: Located, listed: list[Any], texts: Texts) -> list[ConfigProblem]:
    problems: list[ConfigProblem] = []
    located.tree["agents"] = {}
    for index, written in enumerate(listed):
        path: TreePath = ("agents", index)
        name = beside("", written) if isinstance(written, str) else None
        if name is None:
            hint = "write the path of a file that has one agent, relative to this file and in its folder"
            problems.append(located.problem(path, "expected the path of an agent's file", hint))
            continue
        try:
            other, found = locate(texts.text(name).encode(), name)
        except Unusable as fault:
            message = f"`{written}` cannot be used: {fault}"
            problems.append(located.problem(path, message, "paths are relative to this file"))
            continue
        problems += [*found, *_add(located, other)]
    return problems


def _add(located: Located, other: Located) -> Iterator[ConfigProblem]:
    """Add the agent of a file, under its `name` or else the file's name."""
    given = other.tree.pop("name", None)
    name = given if isinstance(given, str) else PurePosixPath(other.file).stem
    place = other.values.get(("name",), Position(1, 1))
    agents = located.tree["agents"]
    if given is not None and not isinstance(given, str):
        yield other.problem(("name",), "a name must be a text", "put it in quotes")
    if name in agents:
        first = located.keys["agents", name]
        message = f"`{name}` is already an agent, in `{first.file or located.file}`"
        yield ConfigProblem(other.file, place.line, place.column, "name", message, "give one of the two another `name`")
        return
    located.take(other, ("agents", name))
    located.keys["agents", name] = Position(place.line, place.column, other.file)


def _place(located: Located, at: TreePath) -> None:
    """Make the paths of an agent relative to the configuration instead of its own file."""
    file = located.keys[at].file if at in located.keys else ""
    folder = posixpath.dirname(file)
    for path, value in list(leaves(located.value(at))) if folder else ():
        if not isinstance(value, str) or any(each in SCHEMAS for each in path):
            continue
        if _is_path(path) and not _is_absolute(value):
            put(located.tree, (*at, *path), posixpath.join(folder, value))
        elif _INCLUDE.search(value) and path[-1] in _TEMPLATES:
            put(located.tree, (*at, *path), {"content": value, "folder": folder})
        elif _INCLUDE.search(value) and path[-1] == "content" and path[-2] in _TEMPLATES:
            located.value((*at, *path[:-1])).setdefault("folder", folder)


def _is_path(path: TreePath) -> bool:
    return path[-1:] == ("url",) or (path[:1] == ("workspaces",) and path[-1] == "path")


def _is_absolute(value: str) -> bool:
    """Say whether a path is absolute; one that begins with a variable may be."""
    return value.startswith(("/", "~", "${")) or bool(PureWindowsPath(value).anchor)
