"""Workspaces for tests: a configuration with folders, and the calls that agents make on their files.

Owns: the configuration, the calls, small questions to results. Must not know: what a test expects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.snapshot import Snapshot
from tests.support.models import Turn, call

SECTION = """
workspaces:
  docs: {path: docs, description: What is published.}
  cache: {path: "${CACHE:-.cache}", description: "Results, <workspace> for those that follow."}
  source: {path: src, description: The code., access: read_only}
"""
CONFIG = (
    SECTION
    + """
agents:
  Writer: {description: writes, workspaces: [docs, cache, source]}
  Reader: {description: reads, workspaces: [{name: cache, access: read_only, description: To look at.}, source]}
  Lead: {sub_agents: [Writer, Reader]}
  Own: {workspaces: [{name: notes, path: own/notes, description: Its own.}]}
  Bare: {}
  Merger: {strategy: synthesis, workspaces: [docs]}
  Planned: {strategy: plan, sub_agents: [A], plan: {compose: concat}}
  A: {description: does a, workspaces: [docs]}
agent_chains:
  line: {stages: [{name: one, agents: [Writer]}, {name: two, agents: [Reader]}]}
"""
)


def write(path: str, content: str = "text", workspace: str = "docs") -> Turn:
    return call("write_file", workspace=workspace, path=path, content=content)


def edit(path: str, old: str, new: str, workspace: str = "docs", **more: Any) -> Turn:
    return call("edit_file", workspace=workspace, path=path, old_text=old, new_text=new, **more)


def look(tool: str, workspace: str = "source", **more: Any) -> Turn:
    return call(f"{tool}_files" if tool != "read" else "read_file", workspace=workspace, **more)


def files(*paths: str) -> list[Mapping[str, Any]]:
    """Files as artifacts."""
    return [{"type": "file", "path": path} for path in paths]


def made(child: Snapshot) -> list[Mapping[str, Any]]:
    """The artifacts of an execution, by path: calls of one turn are over in any order."""
    assert child.result is not None
    return sorted((dict(each) for each in child.result.artifacts), key=lambda each: each.get("path", ""))
