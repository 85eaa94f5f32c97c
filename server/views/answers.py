"""What is answered about executions: a node of a tree, a tree, one execution with its texts, a line and a page of a list.

Owns these shapes; `server/web/static/js/types.js` is the same for the page. Columns come from the tables' row classes. Must
not know: where the values come from, or who asks.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from db.tables import ApprovalRow, ExecutionRow
from server.views.columns import ViewModel, picked

Action = Literal["cancel", "wrap-up", "message", "resume", "rerun"]
Attention = Literal["approval", "interrupted", "blocked", "failed", "timed_out", "over_budget"]
SpanKind = Literal["queue", "model", "tool", "approval", "children", "idle"]


class Times(ViewModel):
    """Where the time of an execution went, in seconds. The parts do not overlap, and their sum is its age."""

    queue: float = 0.0
    """Before it started."""
    model: float = 0.0
    tool: float = 0.0
    approval: float = 0.0
    children: float = 0.0
    """It only waited for its children."""
    idle: float = 0.0
    lasting: SpanKind | None = None
    """The part that grows now; None once it has ended."""


_NODE = picked(
    ExecutionRow,
    *("id", "parent_execution_id", "root_execution_id", "position", "agent", "role", "strategy", "stage", "step_id"),
    *("tool_call_id", "status", "outcome", "reason", "waiting_for", "error", "error_type", "attempt"),
    *("continues_execution_id", "model", "created_at", "started_at", "finished_at", "deadline_at", "turns"),
    *("tool_call_count", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd"),
    *("budget_usd", "budget_tokens"),
)


class ExecutionNode(_NODE):  # type: ignore[misc, valid-type]
    """One execution of a tree, without its texts."""

    short_id: str
    level: int
    """0 for the top of the answered tree."""
    task: str
    """The first line, at most 200 characters."""
    activity: str
    """What it does now, in words; empty once it has ended."""
    summary: str
    """Of its result, at most 300 characters; empty until it has one."""
    owner_gone: bool
    """Its process is gone: it can be resumed."""
    cancel_requested: bool
    pricing: list[str]
    times: Times


class RefusedDispatch(ViewModel):
    """A dispatch that was refused: a row below the execution that asked for it."""

    id: str
    parent_execution_id: str
    agent: str
    kind: str
    message: str
    at: str


_APPROVAL = picked(ApprovalRow, "id", "execution_id", "root_execution_id", "kind", "tool", "requested_at", "expires_at")


class Approval(_APPROVAL):  # type: ignore[misc, valid-type]
    """A question to a person."""

    agent: str
    server: str
    arguments: str
    """Exactly as they will be sent, misleading characters escaped."""
    shown: str
    """The digest to send with the decision."""


class ApprovalList(ViewModel):
    """The open questions."""

    approvals: list[Approval]


class ExecutionTree(ViewModel):
    """A tree, or what of it has changed since an event."""

    id: str
    cursor: int
    """The number of the newest event that this contains."""
    ended: bool
    truncated: bool
    executions: int
    """How many there are in all."""
    nodes: list[ExecutionNode]
    """Parents before children."""
    refused: list[RefusedDispatch]
    approvals: list[Approval]
    """The open questions of the tree."""
    critical_path: list[str]
    """Ids from the top to the leaf that ended last."""


class ResultProblem(ViewModel):
    """An error inside a result."""

    type: str
    message: str
    code: str | None
    severity: str
    recommendation: str | None


class ResultDetail(ViewModel):
    """The return contract."""

    outcome: str
    summary: str
    output: Any
    reason: str | None
    artifacts: list[dict[str, Any]]
    errors: list[ResultProblem]
    next_steps: list[str]
    signals: dict[str, Any]
    metadata: dict[str, Any]


class Citation(ViewModel):
    """A call that an answer cites as its evidence."""

    cited: str
    """As it is written in the answer."""
    call_id: str | None
    """The row id of the call; None: no such call was made."""
    execution_id: str | None
    tool: str


class Ancestor(ViewModel):
    """An execution above."""

    id: str
    agent: str


class SubtreeSums(ViewModel):
    """What an execution and everything below it used."""

    executions: int
    tokens: int
    cost_usd: float
    seconds: float
    by_status: dict[str, int]


class Lacking(ViewModel):
    """Something that this process lacks to resume a tree."""

    words: str
    hint: str


class ForkOrigin(ViewModel):
    """Where a tree was forked from."""

    forked_from: str
    """The root of the other tree."""
    at: str
    """The execution of the other tree that was run again."""
    kept: int
    """Executions that were copied with their results."""


class ExecutionDetail(picked(ExecutionRow, "principal", "cancelled_by", "cancel_reason", "timeout_seconds")):  # type: ignore[misc]
    """One execution with its texts."""

    node: ExecutionNode
    task: str
    input: Any
    result: ResultDetail | None
    ancestors: list[Ancestor]
    """From the root down to its parent."""
    subtree: SubtreeSums
    warnings: list[str]
    needs: list[Lacking]
    citations: list[Citation]
    actions: list[Action]
    """What makes sense now."""
    clock_stopped_at: str | None = None
    """Since when its time stands still, because a call at or below it waits for a person; None: it runs."""
    origin: ForkOrigin | None = None
    """Of the top of a fork."""
    continued_by: list[Ancestor] = Field(default_factory=list)
    """Executions that continue it."""


_LINE = picked(
    ExecutionRow,
    *("id", "parent_execution_id", "agent", "status", "outcome", "reason", "created_at", "started_at", "finished_at"),
)


class ExecutionSummary(_LINE):  # type: ignore[misc, valid-type]
    """One line of a list."""

    short_id: str
    task: str
    activity: str
    error: str | None
    owner_gone: bool
    cancel_requested: bool
    approvals: int
    """Open questions in its tree."""
    attention: Attention | None
    seconds: float
    subtree_executions: int
    subtree_ended: int
    subtree_tokens: int
    subtree_cost_usd: float
    pricing: list[str]


class ExecutionPage(ViewModel):
    """A page of a list."""

    executions: list[ExecutionSummary]
    next_cursor: str | None
    searched_to: str | None
    """A search that looked at its most executions: the id that it reached; `next_cursor` continues there."""


class Counts(ViewModel):
    """Roots by group, and open questions."""

    attention: int
    running: int
    finished: int
    approvals: int
