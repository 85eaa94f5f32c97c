"""Order: a request from outside to start a root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """A root to start."""

    name: str
    """An agent or a chain, in any spelling."""
    task: str = ""
    input: Any = None
    timeout: float | None = None
    budget_usd: float | None = None
    """The budget of its subtree."""
    key: str | None = None
    """Idempotency key: repeated by the same principal, it means the same execution."""
    principal: str | None = None
    """The authenticated caller; None for a local one."""
    session: str | None = None
    user: str | None = None
    """Id or alias of the user it works for."""
    chat: bool = False
    """Whether the task is a message of that user, stored with its answer; one at a time per user."""
    trace: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the caller's request; upstream servers get its trace context (`runner/trace_context.py`)."""
