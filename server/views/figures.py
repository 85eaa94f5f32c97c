"""What is answered about usage, and about two trees side by side.

Owns these shapes; `server/web/static/js/types_pages.js` is the same for the page. Must not know: where the values come
from.
"""

from __future__ import annotations

from typing import Literal

from db.tables import ExecutionRow
from server.views.columns import ViewModel, picked

Change = Literal["same", "changed", "only_a", "only_b"]
Difference = Literal["agent", "task", "status", "answer", "calls", "cost", "time"]


class UsageRow(ViewModel):
    """What an agent, a model or a day used."""

    name: str
    executions: int
    failed: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float
    seconds: float
    pricing: list[str]


class UsageReport(ViewModel):
    """What was used since a day."""

    since: str
    """The first day, `2026-11-17`."""
    by_agent: list[UsageRow]
    by_model: list[UsageRow]
    by_day: list[UsageRow]
    """Oldest first."""
    total: UsageRow


class ComparedNode(picked(ExecutionRow, "id", "status", "outcome", "tool_call_count")):  # type: ignore[misc]
    """One side of a pair."""

    short_id: str
    task: str
    answer: str
    """At most 2,000 characters."""
    seconds: float
    tokens: int
    cost_usd: float
    tool_calls: list[str]
    """What is compared: without the calls that only wait."""


class ComparedPair(ViewModel):
    """An execution of one tree, of the other, or one of each that match."""

    level: int
    agent: str
    change: Change
    differs: list[Difference]
    a: ComparedNode | None
    b: ComparedNode | None


class ComparedTree(picked(ExecutionRow, "id", "agent", "status", "outcome", "created_at")):  # type: ignore[misc]
    """One of two trees, with its sums."""

    short_id: str
    task: str
    seconds: float
    tokens: int
    cost_usd: float
    pricing: list[str]
    executions: int
    answer: str


class TreeComparison(ViewModel):
    """Two trees side by side, their executions in the order of the tree."""

    a: ComparedTree
    b: ComparedTree
    pairs: list[ComparedPair]
    equal: bool
