"""The shapes of the tools' answers: what `outputSchema` promises to clients.

Owns the shapes alone; the answers are made where the tools are, and a test holds them against these. Open on purpose: a
field more is no broken promise.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import BaseModel, Field

Status = Literal["pending", "running", "completed", "failed", "timed_out", "cancelled", "blocked", "skipped"]


class Agent(BaseModel):
    """An agent that may be dispatched."""

    name: str
    description: str
    servers: list[str]
    capabilities: list[str] = []
    input_schema: dict[str, Any] | None = Field(default=None, description="What it takes by name, besides its task.")


class Brief(BaseModel):
    """An execution in one line."""

    execution_id: str
    agent: str
    status: Status
    task: str
    elapsed_seconds: float


class Agents(BaseModel):
    """The answer of `list_agents`."""

    agents: list[Agent]
    executions: list[Brief] = Field(description="Your latest executions.")


class Dispatched(BaseModel):
    """The answer to a dispatch: never a result."""

    execution_id: str
    agent: str
    status: Status
    queue_position: int | None = None
    note: str


class Result(BaseModel):
    """What an execution returned."""

    outcome: Literal["completed", "partial", "failed", "blocked"]
    summary: str
    output: str
    artifacts: list[dict[str, Any]] = []
    errors: list[dict[str, Any]] = []
    next_steps: list[str] = []
    signals: dict[str, bool | str] = {}


class Progress(BaseModel):
    """How an execution that has not ended comes along."""

    activity: str
    elapsed_seconds: float
    remaining_seconds: float | None = None
    usually_seconds: float | None = None
    queue_position: int | None = None


class Asked(BaseModel):
    """A call that a person has to allow."""

    approval_id: str
    execution_id: str
    agent: str
    tool: str
    arguments: Any
    expires_at: str


class Described(BaseModel):
    """One execution: its result, or how it comes along."""

    execution_id: str
    agent: str
    status: Status
    outcome: str | None
    reason: str | None
    result: Result | None
    error: str | None
    usage: dict[str, Any]
    warnings: list[str]
    progress: Progress | None = None
    retry_after_seconds: int | None = None
    waiting_for: str | None = None
    approvals: list[Asked] = []
    hint: str | None = None
    also_ended: list[str] = []


class Spoken(Described):
    """The answer of `send_user_message`: how it stands, and what to say to the user once there is something."""

    answer: str | None = Field(default=None, description="What to say to the user.")


class Waited(BaseModel):
    """The answer of `wait_for`."""

    ended: int
    open: int
    executions: list[Described]


class Cancelled(BaseModel):
    """The answer of `cancel_agent`."""

    execution_id: str
    status: Status
    cancel: Literal["requested", "done", "already_finished"]


class Accepted(BaseModel):
    """The answer of `send_message`."""

    execution_id: str
    status: Status
    message: Literal["accepted", "continued"]
    continues: str | None = Field(default=None, description="The execution that had ended, when it is continued.")


class Part(BaseModel):
    """A part of a long text."""

    text: str
    offset: int
    total: int
    next_offset: int | None


class Line(BaseModel):
    """One execution in a list."""

    execution_id: str
    parent_execution_id: str | None
    agent: str
    task: str | None
    status: Status
    outcome: str | None
    created_at: str
    finished_at: str | None
    turns: int
    cost_usd: float


class Listing(BaseModel):
    """The answer of `list_executions`."""

    executions: list[Line]
    next_before: str | None


class Node(Line):
    """One execution in a tree, with the sums of everything below it."""

    own_seconds: float | None
    own_tokens: int
    subtree_seconds: float | None
    subtree_tokens: int
    subtree_cost_usd: float
    subtree_executions: int
    budget_usd: float | None = None
    budget_tokens: int | None = None
    error: str | None
    children: list[Node]


class Tree(BaseModel):
    """The answer of `get_execution_tree`."""

    tree: Node
    executions: int
    truncated: bool


class Rows(BaseModel):
    """The answer of `query_executions`."""

    columns: list[str]
    rows: list[dict[str, Any]]
    truncated: bool


@cache
def schema_of(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of an answer, without the names only programmers need."""
    schema: dict[str, Any] = _plain(answer.model_json_schema())
    schema.setdefault("type", "object")
    return schema


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items() if key != "title" or not isinstance(each, str)}
    return value
