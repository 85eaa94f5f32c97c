"""Delegation: what an agent is told of the command it was sent for, and what the registry of delegations shows of it.

Pure. Owns the shape of that object, which stands in the input of a delegated execution under `KEY` (the view `delegations`
reads it there), and of the registry as it is handed out. A command is a label in the path and no hop: depth counts from
agent to agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from db.status import ExecutionStatus
from runner.roles import DIRECT

KEY = "delegation"
"""Where it stands in the input of an execution."""


def labelled_path(above: Sequence[str], agent: str, role: str, given: Any) -> tuple[str, ...]:
    """The path of delegation to an agent, below `above`: with the command it was sent for, if it was sent for one."""
    sent = given.get(KEY) if role == DIRECT and isinstance(given, Mapping) else None
    return (*above, sent["command"], agent) if isinstance(sent, Mapping) else (*above, agent)


@dataclass(frozen=True, slots=True)
class Delegation:
    """One piece of work, handed from one agent to another for a command."""

    command: str
    session_id: str
    depth: int
    path: tuple[str, ...]
    """The callers, the command as a label after the one that took it, and the agent itself."""
    timeout: float
    """In seconds."""
    caller: str
    task_number: int | None = None
    """The work item it is about."""
    language: str = "general"
    complexity: str = "simple"

    def context(self) -> dict[str, Any]:
        """What the agent is told of it, and what its row keeps."""
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
    """The registry of delegations, from the rows of its view: how many are at work, how many are known, and all of them."""
    known = [{**row, "delegation_path": from_json(row["delegation_path"])} for row in rows]
    active = sum(row["status"] == ExecutionStatus.RUNNING for row in rows)
    return {"active_delegations": active, "total_tracked": len(known), "delegations": known}
