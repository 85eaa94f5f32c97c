"""Delegation: the command behind a delegated execution, as its agent and the registry of delegations see it.

Pure. Owns the shape of that object, stored under `KEY` in the input of a delegated execution (the view `delegations` reads
it there), and the exported form of the registry. A command is a label in the path, not a hop: depth counts agents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from db.status import ExecutionStatus
from runner.roles import DIRECT

KEY = "delegation"
"""The key of a delegation in the input of an execution."""


def labelled_path(above: Sequence[str], agent: str, role: str, given: Any) -> tuple[str, ...]:
    """The delegation path to an agent below `above`, including the command it carries out, if any."""
    sent = given.get(KEY) if role == DIRECT and isinstance(given, Mapping) else None
    return (*above, sent["command"], agent) if isinstance(sent, Mapping) else (*above, agent)


@dataclass(frozen=True, slots=True)
class Delegation:
    """Work that one agent handed to another for a command."""

    command: str
    session_id: str
    depth: int
    path: tuple[str, ...]
    """The callers, the command as a label after the agent that accepted it, and the agent itself."""
    timeout: float
    """Seconds."""
    caller: str
    task_number: int | None = None
    """The number of its work item."""
    language: str = "general"
    complexity: str = "simple"

    def context(self) -> dict[str, Any]:
        """The form that the agent's prompt shows and its row stores."""
        return {
            "command": self.command,
            "session_id": self.session_id,
            "delegation_depth": self.depth,
            "delegation_path": list(self.path),
            "timeout": self.timeout,
            "caller": self.caller,
            "task_context": {
                "task_number": self.task_number,
                "language": self.language,
                "complexity": self.complexity,
            },
        }


def exported(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The registry of delegations from the rows of its view: number running, number known, and all of them."""
    known = [{**row, "delegation_path": from_json(row["delegation_path"])} for row in rows]
    active = sum(row["status"] == ExecutionStatus.RUNNING for row in rows)
    return {"active_delegations": active, "total_tracked": len(known), "delegations": known}
