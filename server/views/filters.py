"""What a list is asked for: the group, the conditions and the place to go on from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal["attention", "running", "finished"]


@dataclass(frozen=True, slots=True)
class ExecutionFilter:
    """The executions of a page; None does not filter."""

    principal: str | None = None
    group: Group | None = None
    """Without one: all, newest first."""
    status: str | None = None
    agent: str | None = None
    q: str | None = None
    """A part of the task or agent, or the beginning or end of an id."""
    every_level: bool = False
    """Children, too; a group has roots alone."""
    cursor: str | None = None
    """`next_cursor` of the page before."""
    limit: int = 50


@dataclass(frozen=True, slots=True)
class ErrorFilter:
    """The recorded errors of a page; None does not filter."""

    principal: str | None = None
    execution: str | None = None
    kind: str | None = None
    agent: str | None = None
    severity: str | None = None
    only_open: bool = False
    cursor: str | None = None
    limit: int = 50
