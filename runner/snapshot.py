"""What the dispatch tools may do to the tree: start an agent, look at one, wait for one, stop one.

A seam that turns a dependency round: tools lie below executions and need not know them. Whoever calls is the `Family` whose
children are meant; an id outside it does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Protocol

from pydantic_core import from_json

from db.rows.approvals import Row, digest
from registry import CatalogueEntry
from runner.messages import ToolCall
from runner.provider_error import PROVIDER
from runner.result import Result

DISPATCH = "dispatch_agent"
"""The tool that starts an agent. Spelt here because rehearsals know no tools, and look for its answers."""


@dataclass(frozen=True, slots=True)
class Child:
    """An execution as its caller sees it."""

    id: str
    agent: str
    task: str
    status: str
    queue_position: int = 0
    result: Result | None = None
    error: str | None = None
    activity: str = ""
    """The current or last action, in words."""
    elapsed: float = 0.0
    remaining: float | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    expected: float | None = None
    """Seconds it usually takes, where that was asked."""
    waiting_for: str | None = None
    """`approval` while a person has to allow a call, of it or of one below it."""
    questions: Sequence[Question] = ()
    """What that person is asked; only those who may answer are told."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come."""
        return self.status not in ("pending", "running")

    @property
    def for_models(self) -> Child:
        """The same for a model of its own tree: without what a model's provider said, which may be anything."""
        if self.result is None or not any(PROVIDER in each.context for each in self.result.errors):
            return self
        errors = tuple(each.for_models for each in self.result.errors)
        error = errors[0].message if self.error is not None else None
        return replace(self, result=replace(self.result, errors=errors), error=error)


@dataclass(frozen=True, slots=True)
class DispatchOrder:
    """A wish to start an agent, made by a tool call."""

    call: ToolCall
    name: str
    task: str
    timeout: float | None = None
    budget_usd: float | None = None
    """What it and everything below it may cost; its callers' budgets bind it anyway."""
    input: Mapping[str, Any] | None = None
    """What the agent takes by name."""
    key: str | None = None
    """The same key again means the same child."""
    answer: Callable[[Child], str] | None = None
    """The result of the call, from the child that was started; stored in the transaction of its row."""


class Family(Protocol):
    """What a caller may see and do below itself."""

    @property
    def catalogue(self) -> Sequence[CatalogueEntry]:
        """The agents it may dispatch."""
        ...

    async def dispatch(self, order: DispatchOrder) -> tuple[Child, bool]:
        """Start an agent, and settle the call with its answer in the same transaction; raises Refusal.

        True when the key was used before: then nothing is started or settled, and the child is the one of that time.
        """
        ...

    async def look(self, child: str) -> Child | None:
        """One of its children, also an ended one, by its whole or short id; None for anything else.

        Raises UnknownExecution when a short id means several of its children.
        """
        ...

    async def children(self) -> Sequence[Child]:
        """All its children, in order."""
        ...

    async def subtree_usage(self, children: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """What each of these children used together with everything below it, running ones included."""
        ...

    async def stop(self, child: str, reason: str, *, wrap_up: bool) -> str:
        """Stop a child: `requested` or `already_finished`."""
        ...

    async def until_one_ends(self, children: Sequence[str]) -> None:
        """Return when one of those that are open has ended; at once when none is."""
        ...

    def claim(self, child: str) -> str | None:
        """The delivery of a child's end, if it has not been handed over; asking again gives None."""
        ...

    def unread(self) -> Sequence[str]:
        """The children whose end is waiting to be handed over, in order."""
        ...


DIGEST_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked, as it is shown: whoever decides, decides about this."""

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
        """The question a row asks."""
        names = [name for name in cls.__slots__ if name != "arguments"]
        return cls(**{name: row[name] for name in names}, arguments=from_json(row["arguments"]))

    @property
    def shown(self) -> str:
        """What an approval of this is bound to."""
        return digest(self.server, self.tool, self.arguments)

    @property
    def digest(self) -> str:
        """What a person who has seen the arguments types where they cannot be shown. Only a person's view shows it: never
        what a model or a program reads.
        """
        return sha256(f"{self.seal} {self.shown}".encode()).hexdigest()[:DIGEST_CHARACTERS]

    @property
    def exact(self) -> str:
        """The arguments as they are shown: whatever does not print, or could mislead the eye, is escaped."""
        text = json.dumps(self.arguments, ensure_ascii=False)
        return text if text.isprintable() else json.dumps(self.arguments)
