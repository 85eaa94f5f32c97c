"""Snapshots of executions, and the interface of the dispatch tools to the tree: start, look up, wait for and stop children.

The protocol inverts a dependency: tools lie below executions and do not know them. A `Subtree` belongs to one caller; the
id of an execution that is not its child does not exist for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import from_json

from registry import CatalogueEntry
from runner.messages import ToolCall
from runner.provider_error import PROVIDER
from runner.result import Result

if TYPE_CHECKING:
    from db.rows.approvals import Row

DISPATCH = "dispatch_agent"
"""The tool that starts an agent. Defined here because rehearsals know no tools but look for its answers."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An execution as its caller sees it."""

    id: str
    agent: str
    task: str
    status: str
    queue_position: int = 0
    result: Result | None = None
    error: str | None = None
    activity: str = ""
    """The current or last action, for people."""
    elapsed: float = 0.0
    remaining: float | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    expected: float | None = None
    """Its usual duration in seconds, if requested."""
    waiting_for: str | None = None
    """`approval` while a call in its subtree waits for one."""
    questions: Sequence[Question] = ()
    """The open approvals; only for callers who may answer them."""

    @property
    def ended(self) -> bool:
        """Whether its status is terminal."""
        return self.status not in ("pending", "running")

    @property
    def for_models(self) -> Snapshot:
        """The snapshot for a model of its tree: without provider errors, which may contain anything."""
        if self.result is None or not any(PROVIDER in each.context for each in self.result.errors):
            return self
        errors = tuple(each.for_models for each in self.result.errors)
        error = errors[0].message if self.error is not None else None
        return replace(self, result=replace(self.result, errors=errors), error=error)


@dataclass(frozen=True, slots=True)
class DispatchOrder:
    """A tool call's request to start an agent."""

    call: ToolCall
    name: str
    task: str
    timeout: float | None = None
    budget_usd: float | None = None
    """The budget of its subtree; its ancestors' budgets apply as well."""
    input: Mapping[str, Any] | None = None
    """The agent's named inputs."""
    key: str | None = None
    """Idempotency key: repeated, it means the same child."""
    answer: Callable[[Snapshot], str] | None = None
    """Builds the result of the call from the child's snapshot; stored in the transaction of its row."""


class Subtree(Protocol):
    """The children of one caller, as its tools see them."""

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The agents it may dispatch."""
        ...

    async def dispatch(self, order: DispatchOrder) -> tuple[Snapshot, bool]:
        """Start an agent and settle the call in the same transaction; raises Refusal.

        True when the key was used before: then no agent is started, and the child is the one it was used for.
        """
        ...

    async def look(self, child: str) -> Snapshot | None:
        """One of its children, running or ended, by full or short id; None for any other execution.

        Raises UnknownExecution when a short id is ambiguous among its children.
        """
        ...

    async def children(self) -> Sequence[Snapshot]:
        """All its children, in order."""
        ...

    async def subtree_usage(self, children: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """The subtree usage of each of these children, running ones included."""
        ...

    async def stop(self, child: str, reason: str, *, wrap_up: bool) -> str:
        """Stop a child: `requested` or `already_finished`."""
        ...

    async def until_one_ends(self, children: Sequence[str]) -> None:
        """Return when one of the open children among these has ended; immediately if none is open."""
        ...

    def claim(self, child: str) -> str | None:
        """Take the unread end of a child: its delivery id. None if there is none, also on a second call."""
        ...

    def unread(self) -> Sequence[str]:
        """The children whose ends are unread, in order."""
        ...


DIGEST_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Question:
    """An approval request exactly as it is shown: the decision applies to these arguments."""

    id: str
    execution_id: str
    root_execution_id: str
    parent_execution_id: str | None
    session_id: str | None
    principal: str | None
    kind: str
    agent: str
    server: str
    tool: str
    arguments: Any
    requested_at: str
    expires_at: str
    seal: str = field(repr=False)

    @classmethod
    def of_row(cls, row: Row) -> Question:
        """The approval request of a row."""
        names = [name for name in cls.__slots__ if name != "arguments"]
        return cls(**{name: row[name] for name in names}, arguments=from_json(row["arguments"]))

    @property
    def shown(self) -> str:
        """The digest that a decision is bound to."""
        from db.rows.approvals import digest  # late: snapshots are described where no database is open

        return digest(self.server, self.tool, self.arguments)

    @property
    def digest(self) -> str:
        """The code that a person who has seen the arguments types where they cannot be shown. Only views for people show
        it, never output for models or programs.
        """
        return sha256(f"{self.seal} {self.shown}".encode()).hexdigest()[:DIGEST_CHARACTERS]

    @property
    def exact(self) -> str:
        """The arguments as shown: unprintable and misleading characters are escaped."""
        text = json.dumps(self.arguments, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(self.arguments)
