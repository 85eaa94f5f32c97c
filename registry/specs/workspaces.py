"""Workspaces: named folders in which agents read, search and write files.

Owns: the shape of the `workspaces` section and of an agent's list, their checks and WorkspaceSpec. Must not know: how a
file is opened. Invariant: a workspace that is defined read-only is read-only for all agents.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from registry.text.entry import Entry, Line, Text
from registry.text.errors import TreePath
from registry.text.findings import Findings
from registry.text.names import Directory, fold, listed, name_fault, suggestion

Access = Literal["read_write", "read_only"]

DESCRIPTORS = os.open in os.supports_dir_fd
"""Whether this system opens a file relative to an open folder; without that a path cannot be confined."""


class WorkspaceEntry(Entry):
    """One entry of `workspaces` as written."""

    path: Line = Field(description="the folder; relative to this file; a missing one is created unless it is `read_only`")
    description: Text = Field(default="", description="its purpose, shown to agents")
    access: Access = Field(default="read_write", description="`read_only`: no agent may write there")


class WorkspaceUse(Entry):
    """One element of an agent's `workspaces` in its long form."""

    name: Line = Field(description="a workspace of this file, or the name of the agent's own")
    path: Line | None = Field(default=None, description="the folder, if it is the agent's own")
    description: Text | None = Field(default=None, description="its purpose; absent: as defined under `workspaces`")
    access: Access | None = Field(default=None, description="`read_only`: this agent may not write there")


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


Use = Annotated[WorkspaceUse, BeforeValidator(_named, json_schema_input_type=str | WorkspaceUse)]


@dataclass(frozen=True, slots=True)
class WorkspaceSpec:
    """A folder with the access of one agent."""

    name: str
    path: Path
    description: str = ""
    read_only: bool = False


def workspace_specs(
    uses: Sequence[WorkspaceUse], defined: Mapping[str, WorkspaceEntry], folder: Path
) -> tuple[WorkspaceSpec, ...]:
    """Return the workspaces of an agent; paths are relative to the folder of the configuration file."""
    return tuple(_spec(use, defined, folder) for use in uses)


def _placed(folder: Path, written: str) -> Path:
    """Resolve a path that is absolute, or relative to the folder or to a home (`~/notes`)."""
    try:
        return folder / Path(written).expanduser()
    except RuntimeError:  # no user has that home
        return folder / written


def _spec(use: WorkspaceUse, defined: Mapping[str, WorkspaceEntry], folder: Path) -> WorkspaceSpec:
    if use.path is not None:
        return WorkspaceSpec(use.name, _placed(folder, use.path), use.description or "", use.access == "read_only")
    name = Directory(defined).canonical(use.name)
    entry = defined[name]
    description = entry.description if use.description is None else use.description
    return WorkspaceSpec(name, _placed(folder, entry.path), description, "read_only" in (use.access, entry.access))


def check_workspaces(
    findings: Findings,
    defined: Mapping[str, WorkspaceEntry],
    agents: Mapping[str, Sequence[WorkspaceUse]],
    folder: Path,
) -> None:
    """Check names, folders, and that every workspace an agent names exists."""
    _check_names(findings, [(("workspaces", name), name) for name in defined], key=True)
    for name, entry in defined.items():
        if findings.sound("workspaces", name):
            read_only = entry.access == "read_only"
            _check_folder(findings, ("workspaces", name, "path"), _placed(folder, entry.path), read_only=read_only)
    for agent, uses in agents.items():
        places: list[tuple[TreePath, str]] = [
            (("agents", agent, "workspaces", index), use.name) for index, use in enumerate(uses)
        ]
        if findings.sound("agents", agent, "workspaces"):
            _check_names(findings, places)
        for (path, _), use in zip(places, uses, strict=True):
            if findings.sound(*path):
                _check_use(findings, path, use, defined, folder)


def _check_names(findings: Findings, places: Sequence[tuple[TreePath, str]], *, key: bool = False) -> None:
    first: dict[str, str] = {}
    for path, name in places:
        fault, other = name_fault(name), first.get(fold(name))
        written = findings.written(path, name)
        if fault is not None:
            findings.add(path, f"`{written}` cannot be a name here: {fault}", "rename it", key=key)
        elif other is not None:
            findings.add(path, f"`{written}` is the same name as `{other}`", "rename one, or remove it", key=key)
        first.setdefault(fold(name), name)


def _check_use(
    findings: Findings, path: TreePath, use: WorkspaceUse, defined: Mapping[str, WorkspaceEntry], folder: Path
) -> None:
    if use.path is not None:
        _check_folder(findings, (*path, "path"), _placed(folder, use.path), read_only=use.access == "read_only")
        return
    known = Directory(defined).find(use.name)
    if known is None:
        written = findings.written(path, use.name)
        hint = suggestion(use.name, defined) if written == use.name else f"known: {listed(defined)}"
        findings.add(path, f"no workspace named `{written}`", f"{hint}; or give it a `path`")
    elif defined[known].access == "read_only" and use.access == "read_write":
        hint = "remove `access` here, or change it under `workspaces`"
        findings.add((*path, "access"), f"`{known}` is read-only for all agents", hint)


def _check_folder(findings: Findings, path: TreePath, place: Path, *, read_only: bool) -> None:
    """Report a folder that cannot be used; executions of a stored configuration resume whatever happened to folders."""
    if not DESCRIPTORS:
        findings.add(path, "this system cannot confine agents to a folder", "use workspaces on Linux or macOS")
    if findings.stored or not findings.sound(*path):
        return
    if place.exists() and not place.is_dir():
        findings.add(path, "it is not a folder", "name the folder the file is in")
    elif read_only and not place.exists():
        findings.add(path, "there is no such folder", "paths are relative to this file")
