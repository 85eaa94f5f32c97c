"""Spawn: the request for an execution, and the row and first message built from it. Any process can start it from these.

Owns the fields of a request and the rule for idempotency keys: a repeated key means the execution it was first used for.
`runner/core/guard.py` decides whether a request is admitted; `runner/core/children.py` runs the spawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_json

from db.clock import stamp
from db.ids import ExecutionId, new_execution_id, new_id
from db.rows.executions import NewExecution, Place
from db.rows.reads import Record
from db.rows.transcript import MessageDraft
from db.status import ExecutionStatus
from registry import AgentSpec, CatalogueEntry, ChainSpec, Limits, fold
from runner.core.allowance import Allowance
from runner.core.delegation import labelled_path
from runner.core.inbox import Item
from runner.core.services import Services
from runner.core.tree import Node
from runner.errors import Refusal
from runner.messages import ToolCall, clean
from runner.origin import NOWHERE, Origin
from runner.result import Result
from runner.roles import COMMISSIONED, SUB_AGENT
from runner.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StepInfo:
    """The part of its parent's work that a child does."""

    id: str | None = None
    """Identifies the child for its parent: a step of a plan, an agent of a stage, a role of the staff."""
    stage: str | None = None
    depends_on: tuple[str, ...] = ()
    """The ids of the steps it depends on."""
    retries: int = 0
    """Further attempts after a recoverable failure."""
    label: str | None = None
    """Shown instead of the agent's own name: replicas are Name-1 … Name-n."""


@dataclass(frozen=True, slots=True)
class Briefing:
    """What staff of a strategy is shown besides its task."""

    roster: Sequence[CatalogueEntry] = ()
    """Agents to plan for or choose from; it cannot dispatch them."""
    instructions: str = ""
    """The instructions of the agent it works for."""
    history: int | None = None
    """Number of messages of the conversation it is shown, if its role sees any; None for the whole window."""


@dataclass(frozen=True, slots=True)
class DispatchInfo:
    """The dispatch behind a request."""

    call: ToolCall | None = None
    """The tool call; settled in the transaction of the row."""
    answer: Callable[[Snapshot], str] | None = None
    """Builds the result of that call from the child's snapshot."""
    key: str | None = None
    """The caller's idempotency key, unique among the children of a parent."""
    granted: bool = False
    """Whether its budget is reserved from its caller's at spawn."""


@dataclass(frozen=True, slots=True)
class StartMode:
    """How a child starts."""

    gated: bool = False
    """Whether it waits until its parent releases it with a first message."""
    known: Result | None = None
    """A reused result of the same step; the child ends with it and does not work."""
    status: str = "pending"
    """`skipped` creates a row that never runs."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RootInfo:
    """What only a top-level execution is asked for with."""

    origin: Origin = NOWHERE
    """The whole tree has it."""
    chat: bool = False
    """Whether its task is a message of its user."""
    command: Any = None
    """Its task as a `CommandCall`, where it is a command line: parsed once, when the request is made."""


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """An execution to start: agent, task, role and how to run it."""

    agent: AgentSpec | ChainSpec
    task: str
    limits: Limits
    role: str = SUB_AGENT
    """One of `runner/roles.py`."""
    catalogue: Sequence[CatalogueEntry] = ()
    timeout: float | None = None
    input: Any = None
    prompt: str | None = None
    """The first user message, if it is more than the task."""
    step: StepInfo = StepInfo()
    briefing: Briefing = Briefing()
    dispatch: DispatchInfo = DispatchInfo()
    start: StartMode = StartMode()
    root: RootInfo = RootInfo()
    continues: str | None = None
    """An ended execution to continue from its transcript, with its children; the prompt is a new message to it."""
    messages: Sequence[Item] = field(default=())
    """Messages the parent received before the spawn; copied into the child's inbox."""

    def starting(self, **mode: Any) -> SpawnRequest:
        """This request with another start mode."""
        return replace(self, start=replace(self.start, **mode))

    @property
    def carries_on(self) -> bool:
        """Whether it continues an ended execution without a new message."""
        return self.continues is not None and self.prompt is None

    @property
    def name(self) -> str:
        """The name to show."""
        return self.step.label or self.agent.name


@dataclass(frozen=True, slots=True)
class Above:
    """The part of a parent that determines a child's node."""

    node: Node
    is_agent: bool
    """False for a chain: it is a label, not a hop, so its stages are no deeper."""


def node_of(services: Services, request: SpawnRequest, row: Record | None, position: int, above: Above | None) -> Node:
    """The node of an execution: that of its row, of the recorded one in a replay, else a new one.

    A limit on depth applies to its whole subtree.
    """
    parent, limits = above.node if above is not None else None, request.limits
    above_id = parent.id if parent is not None else None
    if row is not None:
        identifier, position = ExecutionId(row["id"]), row["position"]
    elif services.playback is None:
        identifier = new_execution_id()
    else:
        identifier = ExecutionId(services.playback.identify(above_id, request))
    if parent is not None and parent.limits.max_depth < limits.max_depth:
        limits = replace(limits, max_depth=parent.limits.max_depth)
    origin = parent.origin if parent is not None else request.root.origin.in_session()
    root = parent.place.root_execution_id if parent is not None else identifier
    labelled = parent.delegation_path if parent is not None else ()
    return Node(
        place=Place(identifier, above_id, root, origin.session),
        name=request.name,
        path=(*(parent.path if parent is not None else ()), request.agent.name),
        delegation_path=labelled_path(labelled, request.agent.name, request.role, request.input),
        depth=0 if above is None else above.node.depth + above.is_agent,
        stage=request.step.stage or (parent.stage if parent is not None else None),
        position=position,
        origin=origin,
        limits=limits,
    )


def new_row(
    services: Services, request: SpawnRequest, node: Node, allowance: Allowance, status: ExecutionStatus
) -> NewExecution:
    """The row of a spawned execution."""
    agent, place, step = request.agent, node.place, request.step
    spec = services.model_spec(agent)
    top = place.parent_execution_id is None
    given = request.input if top or request.role in COMMISSIONED else None
    labelled = to_json(node.delegation_path).decode()
    return NewExecution(
        id=place.id,
        parent_execution_id=place.parent_execution_id,
        root_execution_id=place.root_execution_id,
        owner=services.database.owner,
        agent=node.name,
        role=request.role,
        strategy="chain" if isinstance(agent, ChainSpec) else agent.strategy,
        position=node.position,
        depth=node.depth,
        path="/".join(node.path),
        delegation_path=labelled if node.delegation_path != node.path else None,
        created_at=stamp(),
        status=status.value,
        stage=node.stage,
        step_id=step.id,
        depends_on=to_json(step.depends_on).decode() if step.depends_on else None,
        session_id=node.origin.session,
        principal=node.origin.principal,
        tool_call_id=request.dispatch.call.row if request.dispatch.call is not None else None,
        idempotency_key=request.dispatch.key,
        continues_execution_id=request.continues,
        task=clean(request.task),
        input=to_json(given).decode() if given is not None else None,
        timeout_seconds=allowance.timeout,
        model=spec.model if spec is not None else None,
        budget_usd=node.limits.max_cost_usd,
        budget_tokens=node.limits.max_tokens,
        budget_from_execution_id=allowance.granted_from,
        config_hash=services.settings.hash,
        reason=request.start.reason,
        user_id=node.origin.user.id if node.origin.user is not None else None,
        trace_context=to_json(node.origin.trace).decode() if top and node.origin.trace else None,
    )


def first_draft(execution: str, prompt: str, request: SpawnRequest) -> MessageDraft:
    """The first user message, as a row."""
    content = to_json([{"type": "text", "text": prompt}]).decode()
    data = to_json({"carry_on": True}).decode() if request.carries_on else None
    return MessageDraft(new_id(), execution, 0, "user", "task", content, data)


def earlier(child: Snapshot, key: str, name: str, task: str, *, same_rest: bool = True) -> Snapshot:
    """The execution `key` was used for; raises Refusal if agent, task, input or user differ."""
    if not same_rest or (fold(child.agent), clean(child.task)) != (fold(name), clean(task)):
        raise Refusal(
            "key_reused",
            f"the key `{key}` was used for another dispatch: execution {child.id} of `{child.agent}`",
            "use another key for another task",
            {"execution_id": child.id},
        )
    return child
