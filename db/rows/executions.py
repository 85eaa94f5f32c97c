"""The writes of executions: create, start, wait, deliver. Each is one unit of prebuilt statements, guarded by conditions.

Knows tables and status; does not know why a change happens. Units are applied by `db/store/writer.py`, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json
from sqlalchemy import bindparam, case, exists, literal, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from db.clock import stamp
from db.rows.approvals import asked_about
from db.rows.transcript import MessageDraft, ToolOutcome, settling
from db.status import APPROVAL, OPEN, ExecutionStatus
from db.store.unit import Added, Event, Statement, Write
from db.tables import columns_of, config_snapshots, deliveries, executions, of_key


@dataclass(frozen=True, slots=True)
class Place:
    """The ids that place an execution in its tree; every event carries them."""

    id: str
    parent_execution_id: str | None
    root_execution_id: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class NewExecution:
    """The columns given at creation; the others are empty."""

    id: str
    parent_execution_id: str | None
    root_execution_id: str
    owner: str | None
    agent: str
    role: str
    strategy: str
    position: int
    depth: int
    path: str
    created_at: str
    status: str = ExecutionStatus.PENDING
    stage: str | None = None
    step_id: str | None = None
    depends_on: str | None = None
    session_id: str | None = None
    principal: str | None = None
    tool_call_id: str | None = None
    idempotency_key: str | None = None
    continues_execution_id: str | None = None
    task: str | None = None
    input: str | None = None
    timeout_seconds: float | None = None
    model: str | None = None
    budget_usd: float | None = None
    budget_tokens: int | None = None
    config_hash: str | None = None
    waiting_for: str | None = None
    reason: str | None = None
    budget_from_execution_id: str | None = None
    user_id: str | None = None
    delegation_path: str | None = None
    trace_context: str | None = None


_BLANK: dict[str, Any] = {
    column.name: column.default.arg if column.default is not None else None  # type: ignore[attr-defined]
    for column in executions.columns
}


def event(place: Place, kind: str, payload: Mapping[str, Any]) -> Event:
    """An event of an execution, ready for the writer to number."""
    return {
        "execution_id": place.id,
        "parent_execution_id": place.parent_execution_id,
        "root_execution_id": place.root_execution_id,
        "session_id": place.session_id,
        "type": kind,
        "payload": to_json(payload).decode(),
        "at": stamp(),
    }


# -- creation and start ------------------------------------------------------------------------------------------------

_PARENT_ALIVE = select(literal(1)).where(
    exists().where(
        executions.c.id == bindparam("parent"),
        executions.c.status == ExecutionStatus.RUNNING.value,
        executions.c.cancel_requested_at.is_(None),
    )
)

_STILL_WANTED = select(literal(1)).where(
    exists().where(
        executions.c.id == bindparam("execution"),
        executions.c.status.in_([status.value for status in OPEN]),
        executions.c.cancel_requested_at.is_(None),
    ),
    ~exists().where(deliveries.c.id == bindparam("delivery")),
)

_KEY_FREE = select(literal(1)).where(~exists().where(of_key()))

_START = (
    update(executions)
    .where(
        executions.c.id == bindparam("execution"),
        executions.c.attempt == bindparam("fence"),
        executions.c.status == ExecutionStatus.PENDING.value,
        executions.c.cancel_requested_at.is_(None),
    )
    .values(
        status=ExecutionStatus.RUNNING.value,
        waiting_for=None,
        started_at=bindparam("at"),
        deadline_at=bindparam("deadline"),
    )
)


_SET_ASIDE = (
    update(executions)
    .where(executions.c.id == bindparam("holder"))
    .values(budget_reserved_usd=executions.c.budget_reserved_usd + bindparam("amount"))
)


@dataclass(frozen=True, slots=True)
class StartWrite:
    """The columns set when an execution starts."""

    at: str
    deadline: str | None
    attempt: int = 1


def create(
    new: NewExecution,
    events: Sequence[Event],
    first: MessageDraft | None = None,
    settled: ToolOutcome | None = None,
    begun: StartWrite | None = None,
) -> Write:
    """Create an execution; refused when its parent is not running or is asked to stop, or its idempotency key was used.

    Its first message is written with it, so that the execution can start now or after a crash. A dispatch settles its tool
    call here and reserves its budget from the budget it comes from. With `begun` it is created running: a row that no
    process has seen cannot have been asked to stop.
    """
    steps: list[Statement | Added] = []
    if new.parent_execution_id is not None:
        steps.append(Statement(_PARENT_ALIVE, {"parent": new.parent_execution_id}, guard=True))
    elif new.idempotency_key is not None:
        known = {"asker": new.principal or "", "key": new.idempotency_key}
        steps.append(Statement(_KEY_FREE, known, guard=True, looks_around=True))
    row = {**_BLANK, **columns_of(new)}
    if new.status not in OPEN:  # created terminal, for a step that will not run
        row["finished_at"] = new.created_at
    steps.append(Added(executions, row))
    if begun is not None:
        row |= {"status": ExecutionStatus.RUNNING.value, "started_at": begun.at, "deadline_at": begun.deadline}
    if first is not None:
        steps.append(first.added())
    if settled is not None:
        steps.extend(settling(settled))
    if new.budget_from_execution_id is not None:
        taken = {"holder": new.budget_from_execution_id, "amount": new.budget_usd}
        steps.append(Statement(_SET_ASIDE, taken))
    return Write(steps, events)


def start(execution: str, begun: StartWrite, events: Sequence[Event], first: MessageDraft | None = None) -> Write:
    """pending → running; refused once a cancel is requested. Writes the first message if there is none yet."""
    parameters = {"execution": execution, "fence": begun.attempt, "at": begun.at, "deadline": begun.deadline}
    steps: list[Statement | Added] = [Statement(_START, parameters, guard=True)]
    return Write([*steps, first.added()] if first is not None else steps, events)


_SNAPSHOT = upsert(config_snapshots).on_conflict_do_nothing()


def snapshot(config_hash: str, body: str) -> Write:
    """Store a configuration, once."""
    row = {"hash": config_hash, "body": body, "created_at": stamp()}
    return Write([Statement(_SNAPSHOT, row)])


_WAITING = (
    update(executions)
    .where(executions.c.id == bindparam("execution"), executions.c.status.in_([status.value for status in OPEN]))
    .values(waiting_for=case((asked_about(), APPROVAL), else_=bindparam("what")))
)


def waiting(execution: str, what: str | None, events: Sequence[Event]) -> Write:
    """Set or clear `waiting_for`; an open approval question takes precedence."""
    return Write([Statement(_WAITING, {"execution": execution, "what": what}, looks_around=True)], events)


def deliver(execution: str, identifier: str, kind: str, payload: str | None, events: Sequence[Event]) -> Write:
    """Deliver an item to the inbox of an open execution, once; refused when it has ended or is asked to stop."""
    wanted = Statement(_STILL_WANTED, {"execution": execution, "delivery": identifier}, guard=True, looks_around=True)
    return Write([wanted, delivery(execution, identifier, kind, payload)], events)


def delivery(execution: str, identifier: str, kind: str, payload: str | None) -> Added:
    """An inbox row; used alone only for an execution that is created in the same unit."""
    row = {
        "id": identifier,
        "execution_id": execution,
        "child_execution_id": None,
        "kind": kind,
        "payload": payload,
        "created_at": stamp(),
        "consumed_at": None,
        "consumed_by": None,
    }
    return Added(deliveries, row)


def note(events: Sequence[Event]) -> Write:
    """Events alone."""
    return Write([], events)
