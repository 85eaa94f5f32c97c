"""Facts: events in the life of an execution that are stored. A fact is frozen and builds its own write.

Owns the life of an execution, from its spawn to its end, and what goes wrong on the way. The turns of its model are in
`runner/record/turn_facts.py`; a feature with tables of its own has its facts in its own package.
`runner/record/recorder.py` commits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from db.ids import inherited_delivery, new_id, result_delivery
from db.rows import adoption, approvals, endings, error_records, executions, plans, users
from db.rows.adoption import Takeover
from db.rows.approvals import Held
from db.rows.deletion import delete_tree
from db.rows.endings import CancelWish, Ending, status_event
from db.rows.error_records import Fix, NewError
from db.rows.executions import NewExecution, Place, StartWrite, event
from db.rows.plans import PlanStatus
from db.rows.transcript import MessageDraft, ToolOutcome
from db.rows.users import NewChatMessage, NewUser, UserAnswer
from db.store.unit import Write
from runner.errors import UNSAFE
from runner.result import SUMMARY_LIMIT

Event = dict[str, Any]

SHOWN = 200
"""Characters of a text in an event; the full text is in its row."""


class Fact(Protocol):
    """One change, written as a unit: its rows and its events."""

    def write(self) -> Write: ...


def shown(text: str, length: int = SHOWN) -> str:
    """The beginning of a text, for an event."""
    return text if len(text) <= length else text[: length - 1] + "…"


def timeline(place: Place, what: Mapping[str, Any], end: Mapping[str, Any]) -> list[Event]:
    """Both events of a timeline entry that is stored only once it has completed."""
    began = event(place, "timeline_event.created", what)
    return [began, event(place, "timeline_event.completed", {**what, **end})]


def plan_event(place: Place, status: str, version: int, more: Mapping[str, Any]) -> Event:
    """The event for a new status of a plan version."""
    payload = {"plan_id": f"{place.id}.{version}", "version": version, "status": status, **more}
    return event(place, f"plan.{status}", payload)


# -- life --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spawned:
    """An execution was spawned.

    The same transaction settles the dispatching call, starts an execution that has its slot, stores the user's message and
    delivers earlier messages of its caller.
    """

    new: NewExecution
    first: MessageDraft | None = None
    parent: Place | None = None
    settled: ToolOutcome | None = None
    started: Started | None = None
    heard: NewChatMessage | None = None
    told: Sequence[Posted] = ()

    def write(self) -> Write:
        start = self.started.start if self.started is not None else None
        created = executions.create(self.new, self._events(), self.first, self.settled, start)
        if self.told:
            inbox = [executions.delivery(each.place.id, each.id, each.kind, each.payload) for each in self.told]
            created = Write([*created.steps, *inbox], [*created.events, *(each.event for each in self.told)])
        return created if self.heard is None else users.heard(created, self.heard)

    def _events(self) -> list[Event]:
        new, parent, settled = self.new, self.parent, self.settled
        place = Place(new.id, new.parent_execution_id, new.root_execution_id, new.session_id)
        more = {"task": shown(new.task or ""), "role": new.role, "stage": new.stage, "position": new.position}
        if new.step_id is not None:
            more["step_id"] = new.step_id
        happened = [status_event(place, new.status, new.agent, **more)]
        if settled is not None and parent is not None:
            payload = {
                "kind": "dispatch",
                "id": settled.id,
                "status": settled.status,
                "execution_id": new.id,
                "agent": new.agent,
            }
            happened.append(event(parent, "timeline_event.completed", payload))
        if self.started is not None:
            happened.append(self.started.event)
        return happened


@dataclass(frozen=True, slots=True)
class Started:
    """It has its slot and starts; a gated execution gets its first message now."""

    place: Place
    agent: str
    start: StartWrite
    first: MessageDraft | None = None
    step: str | None = None

    @property
    def event(self) -> Event:
        step = {"step_id": self.step} if self.step is not None else {}
        return status_event(self.place, "running", self.agent, deadline_at=self.start.deadline, **step)

    def write(self) -> Write:
        return executions.start(self.place.id, self.start, [self.event], self.first)


@dataclass(frozen=True, slots=True)
class Waiting:
    """It waits for a slot, its children or an approval, or no longer waits."""

    place: Place
    what: str | None
    told: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the event."""

    def write(self) -> Write:
        progress = event(self.place, "execution.progress", {"waiting_for": self.what, **self.told})
        return executions.waiting(self.place.id, self.what, [progress])


@dataclass(frozen=True, slots=True)
class Posted:
    """A message or request was delivered to a running execution."""

    place: Place
    id: str
    kind: str
    payload: str | None = None

    @property
    def event(self) -> Event:
        return event(self.place, "delivery.created", {"kind": self.kind, "id": self.id})

    def write(self) -> Write:
        return executions.deliver(self.place.id, self.id, self.kind, self.payload, [self.event])


@dataclass(frozen=True, slots=True)
class Noticed:
    """An event without a row of its own: an upstream is down, a prompt was cut."""

    place: Place
    type: str
    payload: Mapping[str, Any]

    def write(self) -> Write:
        return executions.note([event(self.place, self.type, self.payload)])


@dataclass(frozen=True, slots=True)
class Ended:
    """An execution ended."""

    ending: Ending
    agent: str
    seconds: float
    parent: Place | None = None
    totals: Mapping[str, Any] = field(default_factory=dict)
    answer: UserAnswer | None = None
    """The answer to the user, if a root was answering one."""

    def write(self) -> Write:
        over = endings.end(self.ending, self._events())
        return over if self.answer is None else users.answered(over, self.answer)

    def _events(self) -> list[Event]:
        ending = self.ending
        more = {"outcome": ending.outcome, "reason": ending.reason, "seconds": round(self.seconds, 3), **self.totals}
        if ending.error is not None:
            more["error"] = shown(ending.error, SUMMARY_LIMIT)
        happened = [status_event(ending.place, ending.status, self.agent, **more)]
        if self.parent is not None:
            identifier = result_delivery(ending.place.id)
            payload = {"kind": "result", "id": identifier, "execution_id": ending.place.id, "agent": self.agent}
            happened.append(event(self.parent, "delivery.created", payload))
        return happened


@dataclass(frozen=True, slots=True)
class CancelWished:
    """A cancel of a subtree was requested."""

    wish: CancelWish
    answer: UserAnswer | None = None
    """The answer to the user whose message stays unanswered because of it."""

    def write(self) -> Write:
        cancelled = endings.cancel(self.wish)
        return cancelled if self.answer is None else users.answered(cancelled, self.answer)


@dataclass(frozen=True, slots=True)
class Deleted:
    """A tree was deleted, with the extractions from its conversation."""

    root: str
    extractions: Sequence[str] = ()

    def write(self) -> Write:
        return delete_tree(self.root, self.extractions)


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration was loaded: its snapshot and its users."""

    hash: str
    body: str
    users: Sequence[NewUser] = ()

    def write(self) -> Write:
        return Write([*executions.snapshot(self.hash, self.body).steps, *users.introduced(self.users)])


# -- from one process to another ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adopted:
    """Another process took over the open executions of a dead one."""

    inheritance: Takeover

    def write(self) -> Write:
        return adoption.adopt(self.inheritance)


@dataclass(frozen=True, slots=True)
class ExecutionResumed:
    """An execution of a dead process was resumed here."""

    place: Place
    agent: str
    attempt: int
    deadline: str

    def write(self) -> Write:
        told = status_event(
            self.place, "running", self.agent, deadline_at=self.deadline, attempt=self.attempt, resumed=True
        )
        return adoption.go_on(self.place.id, self.attempt, self.deadline, [told])


@dataclass(frozen=True, slots=True)
class ResultsPassedOn:
    """Ends that the continued execution had not read were delivered to its continuation."""

    place: Place
    attempt: int
    children: Sequence[str]

    def write(self) -> Write:
        return adoption.pass_on(self.place.id, self.attempt, self.children, [self._event(each) for each in self.children])

    def _event(self, child: str) -> Event:
        identifier = inherited_delivery(child, self.place.id)
        return event(self.place, "delivery.created", {"kind": "result", "id": identifier, "execution_id": child})


@dataclass(frozen=True, slots=True)
class Left:
    """Its process stopped while no model call was in flight."""

    place: Place
    attempt: int

    def write(self) -> Write:
        waiting = event(self.place, "execution.progress", {"waiting_for": "restart"})
        return adoption.leave(self.place.id, self.attempt, [waiting])


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """A dispatch was refused."""

    place: Place
    agent: str
    wanted: str
    kind: str
    message: str
    context: Mapping[str, Any]

    def write(self) -> Write:
        what = {"kind": "dispatch", "id": new_id(), "agent": self.wanted}
        end = {"status": "failed", "refused": self.kind, "reason": self.message}
        context = {"agent": self.agent, "wanted": self.wanted, **self.context}
        severity = "high" if self.kind in UNSAFE else "medium"
        recorded = error_records.record(NewError(self.place.id, self.kind, severity, self.message, context))
        return Write(recorded.steps, timeline(self.place, what, end))


@dataclass(frozen=True, slots=True)
class Failed:
    """An error for the operator."""

    place: Place
    agent: str
    kind: str
    message: str
    severity: str = "high"
    context: Mapping[str, Any] = field(default_factory=dict)
    stack_trace: str | None = None
    same: str | None = None
    """The text that identifies equal errors of one agent, if not the message."""

    def write(self) -> Write:
        told = {"agent": self.agent, **self.context}
        new = NewError(self.place.id, self.kind, self.severity, self.message, told, self.stack_trace, self.same)
        return error_records.record(new)


@dataclass(frozen=True, slots=True)
class Addressed:
    """The operator changed the state of an error."""

    fix: Fix

    def write(self) -> Write:
        return error_records.fix(self.fix)


# -- orphans of an ended execution -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApprovalClosed:
    """An approval expired or was withdrawn without an answer."""

    place: Place
    tool: str
    held: Held
    decision: str

    def write(self) -> Write:
        payload = {"id": self.held.approval, "call": self.held.call, "tool": self.tool}
        return approvals.close(self.held, self.decision, [event(self.place, f"approval.{self.decision}", payload)])


@dataclass(frozen=True, slots=True)
class PlanGivenUp:
    """An unfinished plan version was abandoned."""

    place: Place
    attempt: int
    version: int

    def write(self) -> Write:
        told = plan_event(self.place, PlanStatus.FAILED, self.version, {})
        return plans.give_up(self.place.id, self.attempt, self.version, [told])
