"""What an execution is born with: its row and its first message. From these two it can be begun in any process.

One that answers a user is born with what the user said, so that neither is there without the other.
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
from runner import facts
from runner.chat import heard_of
from runner.roles import COMMISSIONED
from runner.transcript import clean

if TYPE_CHECKING:
    from runner.execution import Execution


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
