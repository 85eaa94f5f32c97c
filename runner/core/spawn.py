"""Spawn: the request for an execution, and the row and first message made from it. Any process can start it from these two.

An execution that answers a user is stored together with the user's message. It is admitted only if its answer can be paid:
until it ends, the price of one is reserved. The same dispatch key again means the execution it was first used for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import to_json

from db.clock import stamp
from db.ids import new_id
from db.rows.executions import NewExecution
from db.rows.transcript import MessageDraft, ToolOutcome
from db.status import SLOT, ExecutionStatus
from registry import ChainSpec
from runner.chat import heard_of
from runner.core import facts
from runner.messages import clean
from runner.roles import COMMISSIONED

if TYPE_CHECKING:
    from runner.core.execution import Execution
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from registry import AgentSpec, CatalogueEntry, Limits, fold
from runner.core.guard import too_little_left
from runner.core.inbox import Item
from runner.errors import Refusal
from runner.messages import ToolCall
from runner.origin import NOWHERE, Origin
from runner.result import Result
from runner.snapshot import Child


def spawned(execution: Execution, settled: ToolOutcome | None) -> facts.Spawned:
    """Its birth, with the call that asked for it and what its user said."""
    new, parent = _row_of(execution), execution.parent.place if execution.parent is not None else None
    heard = heard_of(new) if execution.request.chat else None
    first = first_of(execution) if execution.hold is None else None  # one that is held gets it when it begins
    told = [facts.Posted(execution.place, item.id, item.kind, item.payload) for item in execution.told]
    return facts.Spawned(new, first, parent, settled, heard=heard, told=told)


def _row_of(execution: Execution) -> NewExecution:
    """The row it is born with."""
    request, agent = execution.request, execution.request.agent
    spec = execution.services.model_spec(agent)
    top = execution.parent is None
    given = request.input if top or request.role in COMMISSIONED else None
    labelled = to_json(execution.delegation_path).decode()
    waits = execution.status is ExecutionStatus.PENDING and execution.slot.queue_position > 0
    return NewExecution(
        id=execution.id,
        parent_execution_id=execution.place.parent_execution_id,
        root_execution_id=execution.place.root_execution_id,
        owner=execution.services.database.owner,
        agent=execution.name,
        role=request.role,
        strategy="chain" if isinstance(agent, ChainSpec) else agent.strategy,
        position=execution.position,
        depth=execution.depth,
        path="/".join(execution.path),
        delegation_path=labelled if execution.delegation_path != execution.path else None,
        created_at=stamp(),
        status=execution.status.value,
        stage=execution.stage,
        step_id=request.step,
        depends_on=to_json(request.depends_on).decode() if request.depends_on else None,
        session_id=execution.origin.session,
        principal=execution.origin.principal,
        tool_call_id=request.call.row if request.call is not None else None,
        idempotency_key=request.key,
        continues_execution_id=request.continues,
        task=clean(request.task),
        input=to_json(given).decode() if given is not None else None,
        timeout_seconds=execution.allowance.timeout,
        model=spec.model if spec is not None else None,
        budget_usd=execution.limits.max_cost_usd,
        budget_tokens=execution.limits.max_tokens,
        budget_from_execution_id=execution.allowance.granted_from,
        config_hash=execution.services.settings.hash,
        waiting_for=SLOT if waits else None,
        reason=request.reason,
        user_id=execution.origin.user.id if execution.origin.user is not None else None,
    )


def first_of(execution: Execution) -> MessageDraft | None:
    """Its first message; what will not run has none."""
    if execution.status is not ExecutionStatus.PENDING:
        return None
    content = to_json([{"type": "text", "text": execution.prompt}]).decode()
    return MessageDraft(new_id(), execution.id, 0, "user", "task", content)


def keep_an_answer(execution: Execution) -> None:
    """Set aside what a conclusion of an execution that is about to be born costs; raises Refusal."""
    budget = execution.allowance.budget
    if budget is None or execution.status is not ExecutionStatus.PENDING:
        return
    price = execution.habitat.price_of_answer(execution.services.settings, execution.request)
    if price is None:
        return
    if (short := budget.keep_for_conclusion(price.tariff, price.prompt)) is not None:
        raise too_little_left(execution.name, short, top_level=execution.parent is None)


def earlier(child: Child, key: str, name: str, task: str, *, same_rest: bool = True) -> Child:
    """The execution `key` was used for; raises Refusal when it was for another agent, task, input or user."""
    if not same_rest or (fold(child.agent), clean(child.task)) != (fold(name), clean(task)):
        raise Refusal(
            "key_reused",
            f"the key `{key}` was used for another dispatch: execution {child.id} of `{child.agent}`",
            "take another key for another task",
            {"execution_id": child.id},
        )
    return child


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """A child to start: who, on what, and as what."""

    agent: AgentSpec | ChainSpec
    task: str
    limits: Limits
    granted: bool = False
    """Whether its limit on money is taken out of its caller's in advance."""
    role: str = "sub_agent"
    """`root`, `stage`, `synthesis` or `sub_agent`; in a plan `planner`, `step`, `composer`; in a route `classifier`,
    `direct`, `plan`, `answer`; in an iteration `planner`, `worker`, `completer`."""
    catalogue: Sequence[CatalogueEntry] = ()
    timeout: float | None = None
    input: Any = None
    stage: str | None = None
    step: str | None = None
    """Which of its stage or plan it is, for its parent to know it again."""
    depends_on: tuple[str, ...] = ()
    """The steps it builds on."""
    retries: int = 0
    """Further attempts, when one fails in a way another may not."""
    roster: Sequence[CatalogueEntry] = ()
    """Agents it is shown, to plan for or to choose from; it cannot dispatch them."""
    brief: str = ""
    """The instructions of whoever it works for."""
    history: int | None = None
    """Messages of the conversation it is shown in its role, if it is shown any; None for as many as the window has."""
    name: str | None = None
    """Shown instead of the agent's own name: replicas are Name-1 … Name-n."""
    prompt: str | None = None
    """The first user message, where it is more than the task."""
    said: Sequence[Item] = ()
    """What was said to whoever it works for: it hears that from the beginning."""
    call: ToolCall | None = None
    """The tool call that asks for it; settled in the same transaction."""
    key: str | None = None
    """The caller's name for this dispatch; no two children of a parent have the same."""
    held: bool = False
    """Whether it is born waiting, and begins when its parent releases it: with its first message then, not now."""
    known: Result | None = None
    """Its result, where it need not work for it: the same was done lately."""
    status: str = "pending"
    """`skipped` makes a row for what will not run."""
    reason: str | None = None
    origin: Origin = NOWHERE
    """Of a top-level execution; a child has its parent's."""
    chat: bool = False
    """Whether its task is what its user said."""
    continues: str | None = None
    """An execution that has ended: this one goes on from its transcript, and has its children."""


Spawn = Callable[[SpawnRequest], Awaitable[Child]]
"""Starts a child; raises Refusal."""
