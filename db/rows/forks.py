"""A fork: copies of the rows of a tree, under new ids, from which it goes on in another way.

Owns the one transaction that stores them. Which rows are copied, and how they differ, is decided above. Invariant: all rows
of a fork are there, or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.rows.plans import plans
from db.store.unit import Added, Event, Write
from db.tables import deliveries, executions, messages, model_calls, tool_calls

OPENED: Mapping[str, Any] = dict.fromkeys(
    (
        *("waiting_for", "outcome", "reason", "result", "error_type", "error", "finished_at"),
        *("cancel_requested_at", "cancelled_by", "cancel_reason"),
    )
)
"""The columns of an execution that has not ended."""

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
PAID: Mapping[str, Any] = {
    **dict.fromkeys(TOKENS, 0),
    "cost_usd": 0.0,
    "budget_reserved_usd": 0.0,
    "budget_from_execution_id": None,
}
"""An ended copy keeps the number of its turns and calls; its tokens and money count where they were spent."""
UNUSED: Mapping[str, Any] = {
    **dict.fromkeys((*TOKENS, "turns", "tool_call_count"), 0),
    "cost_usd": 0.0,
    "budget_reserved_usd": 0.0,
}
"""An open copy has used nothing."""

UNSETTLED: Mapping[str, Any] = {
    **dict.fromkeys(("is_error", "error_type", "result", "full_result", "finished_at")),
    "status": "started",
}
"""A tool call that is made again."""

CopiedRow = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ForkedRows:
    """The rows of a fork: executions with parents before children, and what belongs to them."""

    executions: Sequence[CopiedRow]
    messages: Sequence[CopiedRow]
    tool_calls: Sequence[CopiedRow]
    model_calls: Sequence[CopiedRow]
    deliveries: Sequence[CopiedRow]
    plans: Sequence[CopiedRow]

    @property
    def root(self) -> CopiedRow:
        """Its top."""
        return self.executions[0]


def fork(rows: ForkedRows, events: Sequence[Event]) -> Write:
    """Store a fork."""
    parts = (
        (executions, rows.executions),
        (messages, rows.messages),
        (tool_calls, rows.tool_calls),
        (model_calls, rows.model_calls),
        (deliveries, rows.deliveries),
        (plans, rows.plans),
    )
    return Write([Added(table, dict(row)) for table, copied in parts for row in copied], events)
