"""The ways an execution ends: by itself, with its parent, or on request. Three invariants:

* Terminal is final: every ending is one guarded UPDATE, and the first wins.
* A child's end and its parent's inbox row are one transaction, so no result is lost and none is delivered twice.
* Cancelling is two writes: the request on the whole subtree first, and from that commit nothing below starts and no
  success can win; then each execution writes its own end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CTE, and_, bindparam, exists, func, or_, select, update

from db.clock import stamp
from db.ids import result_delivery
from db.rows.executions import Place, event
from db.status import OPEN, ExecutionStatus, sources
from db.store.unit import Added, Event, Statement, Write
from db.tables import deliveries, executions
from db.tables import events as events_table

_OPEN = sorted(status.value for status in OPEN)
_ENDS = frozenset(ExecutionStatus) - OPEN
_PLACE = (
    executions.c.id,
    executions.c.parent_execution_id,
    executions.c.root_execution_id,
    executions.c.session_id,
    executions.c.agent,
    executions.c.reason,
)


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an execution."""

    place: Place
    attempt: int
    status: ExecutionStatus
    outcome: str | None
    reason: str | None
    result: str | None
    """JSON of the Result."""
    error_type: str | None = None
    error: str | None = None
    had_children: bool = False
    stopped_by: str | None = None
    stopped_because: str | None = None
    """Why it was stopped without a request: its parent ended."""
    frees_money: bool = True
    """Whether its budget, or one below it, may have been reserved from another budget."""


def _conditions(target: ExecutionStatus) -> list[Any]:
    """Further conditions: success is refused while a child is open, a delivery is unread, or a stop is requested."""
    if target is ExecutionStatus.FAILED:
        return [executions.c.cancel_requested_at.is_(None)]  # a failure caused by a stop request is a cancellation
    if target is not ExecutionStatus.COMPLETED:
        return []
    child = executions.alias("child")
    return [
        executions.c.cancel_requested_at.is_(None),
        ~exists().where(deliveries.c.execution_id == executions.c.id, deliveries.c.consumed_at.is_(None)),
        ~exists().where(child.c.parent_execution_id == executions.c.id, child.c.status.in_(_OPEN)),
    ]


_END = {
    target: update(executions)
    .where(
        executions.c.id == bindparam("execution"),
        executions.c.attempt == bindparam("fence"),
        executions.c.status.in_(sorted(status.value for status in sources(target))),
        *_conditions(target),
    )
    .values(
        status=target.value,
        waiting_for=None,
        outcome=bindparam("ended_as"),
        reason=bindparam("because"),
        result=bindparam("answer"),
        error_type=bindparam("kind"),
        error=bindparam("said"),
        finished_at=bindparam("at"),
        budget_reserved_usd=0.0,
        cancelled_by=func.coalesce(executions.c.cancelled_by, bindparam("stopped_by")),
        cancel_reason=func.coalesce(executions.c.cancel_reason, bindparam("stopped_because")),
    )
    for target in _ENDS
}


def _below(include_top: bool) -> CTE:
    """The subtree of `:execution`, any depth."""
    first = executions.c.id if include_top else executions.c.parent_execution_id
    below = select(executions.c.id).where(first == bindparam("execution")).cte("below", recursive=True)
    child = executions.alias("child")
    return below.union_all(select(child.c.id).where(child.c.parent_execution_id == below.c.id))


_STOPPED: dict[str, Any] = {
    "status": ExecutionStatus.CANCELLED.value,
    "waiting_for": None,
    "finished_at": bindparam("at"),
    "budget_reserved_usd": 0.0,
}

_CLOSE_BELOW = (
    update(executions)
    .where(executions.c.id.in_(select(_below(include_top=False).c.id)), executions.c.status.in_(_OPEN))
    .values(
        **_STOPPED,
        reason="parent_ended",
        cancelled_by=func.coalesce(executions.c.cancelled_by, "parent"),
        cancel_reason=func.coalesce(executions.c.cancel_reason, "its parent ended"),
    )
    .returning(*_PLACE)
)

_ASK_BELOW = (
    update(executions)
    .where(
        executions.c.id.in_(select(_below(include_top=True).c.id)),
        executions.c.status.in_(_OPEN),
        executions.c.cancel_requested_at.is_(None),
    )
    .values(cancel_requested_at=bindparam("at"), cancelled_by=bindparam("by"), cancel_reason=bindparam("why"))
    .returning(*_PLACE)
)

_STOP_IDLE = (
    update(executions)
    .where(
        executions.c.id.in_(select(_below(include_top=True).c.id)),
        or_(
            executions.c.status == ExecutionStatus.PENDING.value,
            and_(
                executions.c.status == ExecutionStatus.RUNNING.value,
                executions.c.owner.in_(bindparam("gone", expanding=True)),
            ),
        ),
    )
    .values(**_STOPPED, reason="cancelled")
    .returning(*_PLACE)
)


def _reserved() -> Any:
    """The sum that open executions have reserved from a budget; computed afresh, so no rounding error remains."""
    open_ = executions.alias("open_")
    budgets = select(func.coalesce(func.sum(open_.c.budget_usd), 0.0)).where(
        open_.c.root_execution_id == executions.c.root_execution_id,
        open_.c.budget_from_execution_id == executions.c.id,
        open_.c.status.in_(_OPEN),
    )
    return budgets.correlate(executions).scalar_subquery()


_top = executions.alias("top")

_FREE = (
    update(executions)
    .where(
        executions.c.root_execution_id
        == select(_top.c.root_execution_id).where(_top.c.id == bindparam("execution")).scalar_subquery(),
        executions.c.budget_reserved_usd > 0,
    )
    .values(budget_reserved_usd=_reserved())
)
"""Releases the reservations of executions that have ended, in the whole tree of `:execution`."""


def delivery_of(child: Place) -> Added:
    """The inbox row with a child's end, for its parent."""
    return Added(
        deliveries,
        {
            "id": result_delivery(child.id),
            "execution_id": child.parent_execution_id,
            "child_execution_id": child.id,
            "kind": "result",
            "payload": None,
            "created_at": stamp(),
            "consumed_at": None,
            "consumed_by": None,
        },
    )


def status_event(place: Place, status: str, agent: str, **more: Any) -> Event:
    """`execution.status`: a change of state."""
    return event(place, "execution.status", {"status": status, "agent": agent, **more})


def _stopped(rows: Sequence[Any]) -> Iterable[Added]:
    for row in rows:
        place = Place(row.id, row.parent_execution_id, row.root_execution_id, row.session_id)
        if place.parent_execution_id is not None:
            yield delivery_of(place)
        yield Added(events_table, status_event(place, ExecutionStatus.CANCELLED, row.agent, reason=row.reason))


def end(ending: Ending, events: Sequence[Event]) -> Write:
    """The last write of an execution: its end, its parent's inbox row, and the end of everything still open below it."""
    parameters = {
        "execution": ending.place.id,
        "fence": ending.attempt,
        "ended_as": ending.outcome,
        "because": ending.reason,
        "answer": ending.result,
        "kind": ending.error_type,
        "said": ending.error,
        "at": stamp(),
        "stopped_by": ending.stopped_by,
        "stopped_because": ending.stopped_because,
    }
    statement = _END[ending.status]
    looks_around = ending.status is ExecutionStatus.COMPLETED
    steps: list[Statement | Added] = [Statement(statement, parameters, guard=True, looks_around=looks_around)]
    if ending.place.parent_execution_id is not None:
        steps.append(delivery_of(ending.place))
    if ending.had_children:
        below = {"execution": ending.place.id, "at": parameters["at"]}
        steps.append(Statement(_CLOSE_BELOW, below, looks_around=True, then=_stopped))
    if ending.frees_money:
        steps.append(Statement(_FREE, {"execution": ending.place.id}, looks_around=True))
    return Write(steps, events)


@dataclass(frozen=True, slots=True)
class CancelWish:
    """A request to stop a subtree."""

    execution: str
    by: str
    reason: str
    gone_owners: Sequence[str] = ()
    """Owners that have ended: their executions have no task, so they end with the request."""


def cancel(wish: CancelWish) -> Write:
    """Ask a subtree to stop; refused when nothing in it is open or all of it was asked before.

    With `gone_owners` it is never refused: executions that these owners left open still have to end.
    """
    at = stamp()
    ask = {"execution": wish.execution, "at": at, "by": wish.by, "why": wish.reason}
    stop = {"execution": wish.execution, "at": at, "gone": list(wish.gone_owners)}

    def asked(rows: Sequence[Any]) -> Iterable[Added]:
        for row in rows:
            place = Place(row.id, row.parent_execution_id, row.root_execution_id, row.session_id)
            payload = {"action": "cancel requested", "by": wish.by, "reason": wish.reason}
            yield Added(events_table, event(place, "execution.progress", payload))

    return Write(
        [
            Statement(_ASK_BELOW, ask, guard=not wish.gone_owners, looks_around=True, then=asked),
            Statement(_STOP_IDLE, stop, looks_around=True, then=_stopped),
            Statement(_FREE, {"execution": wish.execution}, looks_around=True),
        ]
    )
