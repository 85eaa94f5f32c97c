"""Order: a top-level execution that a caller from outside wants to start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    """A top-level execution to start."""

    name: str
    """Of an agent or a chain, however it is spelt."""
    task: str = ""
    input: Any = None
    timeout: float | None = None
    budget_usd: float | None = None
    """What it and everything below it may cost."""
    key: str | None = None
    """The same key of the same principal again means the same execution."""
    principal: str | None = None
    """Whose it is; None for somebody at this machine."""
    session: str | None = None
    user: str | None = None
    """An id or an alias of the person it works for."""
    chat: bool = False
    """Whether the task is what that person said: it is stored as such, and the answer with the end. One at a time."""
    trace: Mapping[str, Any] = field(default_factory=dict)
    """Metadata of the caller's request; upstream servers get its trace context (`runner/trace_context.py`)."""
