"""Adoption: what a process that is gone left open becomes another's, by one guarded UPDATE.

Owns the change of owner and what is written when an execution goes on. `attempt` counts up with every owner, and every
write of an execution is fenced by it: whatever the old process might still say is not written any more.
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
class Inheritance:
    """What becomes whose."""

    gone: str
    """A process that does not live any more."""
    heir: str
    root: str | None = None
    """Only this tree; None takes all."""
    left: Sequence[str] = ()
    """The trees that stay as they are, because the heir cannot run them."""


def adopt(inheritance: Inheritance) -> Write:
    """Take over everything open that a process left: which, is in the ticket. Whoever comes second gets none.

    From here on each waits for its turn to go on; what it waited for already, such as a person, is still told instead.
    """
    left = json.dumps(list(inheritance.left))
    parameters = {"gone": inheritance.gone, "heir": inheritance.heir, "tree": inheritance.root, "left": left}
    return Write([Statement(_ADOPT, parameters, looks_around=True)])


def had_waited(row: Mapping[str, Any]) -> bool:
    """Whether an adopted execution, which has not gone on yet, was waiting when its process went: then nobody was asked."""
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
    """A running execution goes on in another process: the time without a process does not count, and it still waits for a
    person who was asked and has not answered.

    Refused once it is asked to stop: a wish that came after it was adopted found nobody to tell.
    """
    parameters = {"execution": execution, "fence": attempt, "deadline": deadline}
    return Write([Statement(_GO_ON, parameters, guard=True)], events)


def pass_on(execution: str, attempt: int, children: Sequence[str], events: Sequence[Event]) -> Write:
    """The ends of children that an earlier execution had not read wait in the inbox of the one that continues it."""
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
    """A running execution is left to the next process; unless it waits for something anyway, it waits for that."""
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
    """A model call whose answer nobody heard: it may have been paid, so it is charged, and asked once more."""
    used = {"fresh": call.input_tokens, "made": call.output_tokens, "cost": call.cost_usd}
    parameters = {"execution": call.execution_id, "fence": attempt, **used}
    return Write([Statement(_CHARGE, parameters, guard=True), Added(model_calls, columns_of(call))], events)
