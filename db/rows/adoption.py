"""Adoption: the open executions of a process that has ended get another owner, by one guarded UPDATE.

Owns the change of owner and the writes of an execution that resumes. `attempt` increases with every owner and fences every
write of an execution: a late write of the old process is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, case, func, or_, select, update

from db.clock import stamp
from db.ids import inherited_delivery
from db.rows.approvals import asked_about
from db.rows.transcript import ModelCall, fenced
from db.status import APPROVAL, SLOT, ExecutionStatus
from db.store.unit import Added, Event, Statement, Write
from db.tables import columns_of, deliveries, executions, model_calls

_ADOPT = (
    update(executions)
    .where(
        executions.c.finished_at.is_(None),
        executions.c.owner == bindparam("gone"),
        or_(bindparam("tree").is_(None), executions.c.root_execution_id == bindparam("tree")),
        executions.c.root_execution_id.not_in(select(func.json_each(bindparam("left")).table_valued("value").c.value)),
    )
    .values(
        owner=bindparam("heir"),
        attempt=executions.c.attempt + 1,
        waiting_for=case(
            ((executions.c.waiting_for == APPROVAL) & ~asked_about(), SLOT),
            else_=func.coalesce(executions.c.waiting_for, SLOT),
        ),
    )
    .returning(executions.c.id, executions.c.parent_execution_id, executions.c.status)
)


@dataclass(frozen=True, slots=True)
class Takeover:
    """Which open executions get which owner."""

    gone: str
    """The owner that has ended."""
    heir: str
    root: str | None = None
    """Only this tree; None: all trees."""
    left: Sequence[str] = ()
    """The trees that are left as they are, because the new owner cannot run them."""


def adopt(inheritance: Takeover) -> Write:
    """Adopt the open executions of an ended process; the ticket lists them. A second adopter gets none.

    Each then waits for a slot to resume. `waiting_for` still shows an earlier reason, such as an approval.
    """
    left = json.dumps(list(inheritance.left))
    parameters = {"gone": inheritance.gone, "heir": inheritance.heir, "tree": inheritance.root, "left": left}
    return Write([Statement(_ADOPT, parameters, looks_around=True)])


def had_waited(row: Mapping[str, Any]) -> bool:
    """Whether an adopted, not yet resumed execution waited when its process ended: then no model call was cut off."""
    return row["started_at"] is None or row["waiting_for"] not in (None, SLOT)


_GO_ON = (
    update(executions)
    .where(
        executions.c.id == bindparam("execution"),
        executions.c.attempt == bindparam("fence"),
        executions.c.status == ExecutionStatus.RUNNING.value,
        executions.c.cancel_requested_at.is_(None),
    )
    .values(
        deadline_at=bindparam("deadline"),
        waiting_for=case(((executions.c.waiting_for == APPROVAL) & asked_about(), APPROVAL), else_=None),
    )
)


def go_on(execution: str, attempt: int, deadline: str, events: Sequence[Event]) -> Write:
    """Resume a running execution in another process; refused once it is asked to stop.

    The time without a process does not count against its deadline, and it still waits for an undecided approval. A stop
    requested after the adoption found no task to cancel, so it is checked here.
    """
    parameters = {"execution": execution, "fence": attempt, "deadline": deadline}
    return Write([Statement(_GO_ON, parameters, guard=True)], events)


def pass_on(execution: str, attempt: int, children: Sequence[str], events: Sequence[Event]) -> Write:
    """Copy the unread results of children into the inbox of the execution that continues their parent."""
    rows = [
        {
            "id": inherited_delivery(child, execution),
            "execution_id": execution,
            "child_execution_id": child,
            "kind": "result",
            "payload": None,
            "created_at": stamp(),
            "consumed_at": None,
            "consumed_by": None,
        }
        for child in children
    ]
    fence = fenced(execution, attempt)
    return Write([fence, *(Added(deliveries, row) for row in rows)], events)


_LEAVE = (
    update(executions)
    .where(
        executions.c.id == bindparam("execution"),
        executions.c.attempt == bindparam("fence"),
        executions.c.status == ExecutionStatus.RUNNING.value,
        executions.c.waiting_for.is_(None),
    )
    .values(waiting_for="restart")
)


def leave(execution: str, attempt: int, events: Sequence[Event]) -> Write:
    """Leave a running execution to the next process; it waits for a slot unless it already waits for something else."""
    return Write([Statement(_LEAVE, {"execution": execution, "fence": attempt}, guard=True)], events)


_CHARGE = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.attempt == bindparam("fence"))
    .values(
        input_tokens=executions.c.input_tokens + bindparam("fresh"),
        output_tokens=executions.c.output_tokens + bindparam("made"),
        cost_usd=executions.c.cost_usd + bindparam("cost"),
    )
)


def lose_call(attempt: int, call: ModelCall, events: Sequence[Event]) -> Write:
    """Charge a model call whose reply was lost in a crash: it may have been paid. It is made once more."""
    used = {"fresh": call.input_tokens, "made": call.output_tokens, "cost": call.cost_usd}
    parameters = {"execution": call.execution_id, "fence": attempt, **used}
    return Write([Statement(_CHARGE, parameters, guard=True), Added(model_calls, columns_of(call))], events)
