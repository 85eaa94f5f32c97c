"""AIGNE: agents written in the dialect of AIGNE's orchestrators.

Owns: the translation of its keys, in both of their spellings. Must not know: whether their values are valid.
Invariant: a translated value keeps its position in the file; a key without a translation stays and is reported as an
unknown key.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from registry.text.errors import ConfigProblem, TreePath
from registry.text.locate import Located
from registry.text.names import Directory

ForeignType = Literal["@aigne/agent-library/orchestrator"]
"""The `type` of an entry in this dialect."""

LOCAL_FOLDER = "local-fs"
"""The only kind of module that is a folder."""

_SPELT = {
    "inputSchema": "input_schema",
    "outputSchema": "output_schema",
    "stateManagement": "state_management",
    "maxIterations": "max_iterations",
    "maxTokens": "max_tokens",
    "keepRecent": "keep_recent",
    "local_path": "localPath",
}
"""The other spelling of its keys."""

WORKS = "works towards its objective, task by task"
LONGEST_DESCRIPTION = 200
"""The longest description made from an objective."""

_FOLDER = f"write `module: {LOCAL_FOLDER}` with `options`: `name`, `localPath` and `description`"
_PARTS = ("planner", "worker", "completer")


def is_foreign(entry: object) -> bool:
    """Say whether an agent is written in this dialect."""
    return isinstance(entry, Mapping) and entry.get("type") in get_args(ForeignType)


def take_over(located: Located, at: TreePath, servers: Directory) -> list[ConfigProblem]:
    """Translate the agent at a path; return the problems. `servers` are those of the configuration."""
    inner: list[TreePath] = [(), ("state_management",), *((part,) for part in _PARTS)]
    problems = [problem for path in inner for problem in _respell(located, (*at, *path))]
    entry = located.value(at)
    if "strategy" in entry:
        del entry["type"]
    else:
        located.move((*at, "type"), (*at, "strategy"))
        entry["strategy"] = "iterate"
    for part in _PARTS:
        component = entry.get(part)
        if isinstance(component, dict) and component.get("type") == "ai":
            del component["type"]
    for key in ("objective", *_PARTS):
        problems += _settle(located, at, key, key)
    problems += _settle(located, at, "state_management", "state")
    _describe(located, at)
    _share_out(located, at, servers)
    return [*problems, *_folders(located, at)]


def _settle(located: Located, at: TreePath, key: str, ours: str) -> Iterator[ConfigProblem]:
    """Move a setting to its key here, unless that key is set too."""
    old, new = (*at, key), (*at, "iterate", ours)
    if located.value(old) is not None and located.value(new) is not None:
        message = f"`{key}` and `iterate.{ours}` are one setting"
        yield located.problem(old, message, "remove one of the two", key=True)
        del located.value(at)[key]
    else:
        located.move(old, new)


def _describe(located: Located, at: TreePath) -> None:
    """Describe an agent by its objective if it has no description: without one it could not be dispatched."""
    entry, objective = located.value(at), (*at, "iterate", "objective")
    place = located.position(objective)
    if "description" not in entry and place is not None:
        written = located.value((*objective, "content")) or located.value(objective)
        lines = written.split("\n") if isinstance(written, str) else ()
        first = next((line.strip() for line in lines if line.strip() and "${" not in line), "")
        entry["description"] = first[:LONGEST_DESCRIPTION] or WORKS
        located.values[(*at, "description")] = place


def _share_out(located: Located, at: TreePath, servers: Directory) -> None:
    """Split an agent's `skills` into servers and agents it may dispatch."""
    skills = located.value((*at, "skills"))
    for index, skill in enumerate(skills) if isinstance(skills, list) else ():
        known = servers.find(skill) if isinstance(skill, str) else None
        _append(located, (*at, "skills", index), (*at, "sub_agents" if known is None else "mcp_servers"))
    if isinstance(skills, list):
        del located.value(at)["skills"]


def _respell(located: Located, at: TreePath) -> Iterator[ConfigProblem]:
    """Give the keys of one mapping the usual spelling."""
    here = located.value(at)
    for other, key in _SPELT.items() if isinstance(here, dict) else ():
        if other in here and key in here:
            yield located.problem((*at, other), f"`{other}` and `{key}` are one setting", "remove one of the two", key=True)
            del here[other]
        else:
            located.move((*at, other), (*at, key))


def _folders(located: Located, at: TreePath) -> Iterator[ConfigProblem]:
    """Turn the folder modules of a file system into workspaces."""
    afs, modules = located.value((*at, "afs")), located.value((*at, "afs", "modules"))
    if afs is not None and (not isinstance(modules, list) or set(afs) != {"modules"}):
        yield located.problem((*at, "afs"), "a list of `modules` is expected here, and nothing else", _FOLDER, key=True)
    for index, module in enumerate(modules) if isinstance(modules, list) else ():
        path = (*at, "afs", "modules", index)
        if not isinstance(module, dict) or module.get("module") != LOCAL_FOLDER or set(module) != {"module", "options"}:
            yield located.problem(path, "this module is not a folder", _FOLDER)
            continue
        yield from _respell(located, (*path, "options"))
        located.move((*path, "options", "localPath"), (*path, "options", "path"))
        _append(located, (*path, "options"), (*at, "workspaces"))
    located.value(at).pop("afs", None)


def _append(located: Located, path: TreePath, to: TreePath) -> None:
    """Append the value at a path to a list."""
    there = located.value(to[:-1]).setdefault(to[-1], [])
    if isinstance(there, list):
        located.move(path, (*to, len(there)))
