"""The schemas of the tools' answers, as `outputSchema` shows them to clients.

Owns only the schemas; a test compares them with the answers of the tools. A schema names the fields that are always present
and those that clients act on, because every conversation pays for its tokens; an answer may have more. Invariant: a field
without a value is absent, never null. A default here means only that the field may be absent.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from runner.tools.builtin import compact

Status = Literal["pending", "running", "completed", "failed", "timed_out", "cancelled", "blocked", "skipped"]
Some = list[Any]


class Agent(BaseModel):
    """An agent that may be dispatched; perhaps with `servers`, `capabilities` and the `input_schema` of what it takes."""

    name: str
    description: str


class ExecutionBrief(BaseModel):
    """An execution in one line; also with `agent`, `task` and `elapsed_seconds`."""

    execution_id: str
    status: str
    cost_usd: float
    subtree_cost_usd: float = 0.0


class AgentsAnswer(BaseModel):
    """The answer of `list_agents`."""

    agents: list[Agent]
    executions: list[ExecutionBrief] = []


class DispatchAnswer(BaseModel):
    """The answer to a dispatch: never a result."""

    execution_id: str
    agent: str
    status: str
    queue_position: int = 0
    note: str


class AgentResult(BaseModel):
    """What an execution returned; `summary` where the output does not begin with it."""

    outcome: str
    output: str
    summary: str = ""
    artifacts: Some = []
    errors: Some = []
    next_steps: Some = []
    signals: dict[str, Any] = {}


class Usage(BaseModel):
    """What an execution used: itself, or together with everything below it, and then how many `executions` that are."""

    turns: int
    tool_calls: int
    tokens: int
    cost_usd: float
    executions: int = 0


class ExecutionProgress(BaseModel):
    """How an open execution comes along; perhaps with `remaining_seconds`, `usually_seconds` and `queue_position`."""

    activity: str
    elapsed_seconds: float


class ExecutionState(BaseModel):
    """One execution, with the fields of `ResultAnswer`; only what every client reads is said again."""

    execution_id: str
    status: str
    result: dict[str, Any] = {}


class ResultAnswer(BaseModel):
    """The answer of `get_result`: the result of an execution, or how it comes along."""

    execution_id: str
    agent: str
    status: Status
    outcome: str = ""
    reason: str = ""
    result: AgentResult = AgentResult(outcome="", output="")
    error: str = ""
    usage: Usage
    subtree_usage: Usage = Usage(turns=0, tool_calls=0, tokens=0, cost_usd=0)
    warnings: Some = []
    progress: ExecutionProgress = ExecutionProgress(activity="", elapsed_seconds=0)
    retry_after_seconds: int = 0
    waiting_for: str = ""
    approvals: Some = []
    hint: str = ""


class ChatAnswer(ExecutionState):
    """The answer of `send_user_message`: how it stands, and what to say to the user once there is something."""

    answer: str = ""


class WaitAnswer(BaseModel):
    """The answer of `wait_for`."""

    ended: int
    open: int
    executions: list[ExecutionState]


class CancelAnswer(BaseModel):
    """The answer of `cancel_agent`."""

    execution_id: str
    status: str
    cancel: Literal["requested", "done", "already_finished"]


class MessageAnswer(BaseModel):
    """The answer of `send_message`; `continues` is the execution that had ended, when it is continued."""

    execution_id: str
    status: str
    message: Literal["accepted", "continued"]
    continues: str = ""


class TextPart(BaseModel):
    """A part of a long text, from `offset` on; without `next_offset` it is the last."""

    text: str
    total: int
    next_offset: int = 0


class ExecutionLine(BaseModel):
    """One execution in a list or tree; with `turns`, perhaps `parent_execution_id`, and `outcome` where its status
    does not say it.
    """

    execution_id: str
    agent: str
    task: str = ""
    status: str
    created_at: str
    own_seconds: float
    cost_usd: float


class ListedExecution(ExecutionLine):
    """One execution in a list; with the sums of everything below it where there is something, also `subtree_tokens`."""

    subtree_cost_usd: float = 0.0
    subtree_executions: int = 0


class ListAnswer(BaseModel):
    """The answer of `list_executions`; without `next_before` it is the last page."""

    executions: list[ListedExecution]
    next_before: str = ""


class Node(ExecutionLine):
    """One execution in a tree; with the sums of everything below it where there is something, `subtree_tokens` and
    `subtree_seconds` among them; perhaps with `budget_usd`, `budget_tokens` and `error`.
    """

    own_tokens: int
    subtree_cost_usd: float = 0.0
    subtree_executions: int = 0
    children: list[Node] = []


class TreeAnswer(BaseModel):
    """The answer of `get_execution_tree`."""

    tree: Node
    executions: int
    truncated: bool = False


class TreeChanges(BaseModel):
    """The answer of `follow_tree`, in the shape of the HTTP API; `cursor` is the next `after`."""

    id: str
    cursor: int
    ended: bool
    executions: int
    nodes: Some


class ExecutionPart(BaseModel):
    """The answer of `read_execution`: the part in the shape of the HTTP API; absent if there is none."""

    part: dict[str, Any] = {}


class RowsAnswer(BaseModel):
    """The answer of `query_executions`."""

    columns: list[str]
    rows: list[dict[str, Any]]
    truncated: bool


@cache
def schema_of(answer: type[BaseModel]) -> dict[str, Any]:
    """The compact JSON schema of an answer. Only its own fields can be `required`, not those of nested objects."""
    schema = answer.model_json_schema()
    for nested in schema.get("$defs", {}).values():
        nested.pop("required", None)
    return compact(schema) | {"type": "object"}
