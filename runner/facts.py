"""Facts: everything that can happen to an execution and is worth a row. Frozen; `runner/recorder.py` alone acts on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from db.adoption import Inheritance
from db.approvals import Decision, Held, NewApproval
from db.endings import CancelWish, Ending
from db.memory import Keeper
from db.people import Answer, NewChatMessage, NewUser
from db.pins import Drift
from db.plans import NewPlan, PlanStatus
from db.turns import MessageDraft, ModelCall, ToolOutcome, ToolStart
from db.writes import NewExecution, Place, Start
from runner.error_facts import ErrorFact
from runner.item_facts import ItemFact


@dataclass(frozen=True, slots=True)
class Spawned:
    """An execution was admitted. In the same transaction a dispatch settles its call, what has its slot begins, what its
    user said is stored, and what was said to its caller is put into its inbox.
    """

    new: NewExecution
    first: MessageDraft | None = None
    parent: Place | None = None
    settled: ToolOutcome | None = None
    started: Started | None = None
    heard: NewChatMessage | None = None
    told: Sequence[Posted] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """It has its slot and begins; one that was held gets its first message now."""

    place: Place
    agent: str
    start: Start
    first: MessageDraft | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Adopted:
    """A process is gone, and another takes over what it left open."""

    inheritance: Inheritance


@dataclass(frozen=True, slots=True)
class WentOn:
    """It was running in a process that is gone, and goes on in this one."""

    place: Place
    agent: str
    attempt: int
    deadline: str


@dataclass(frozen=True, slots=True)
class PassedOn:
    """It continues an execution that had not read how these children ended: now it is to read that."""

    place: Place
    attempt: int
    children: Sequence[str]


@dataclass(frozen=True, slots=True)
class CallLost:
    """A model was being asked when the process went: nobody heard the answer."""

    place: Place
    attempt: int
    call: ModelCall


@dataclass(frozen=True, slots=True)
class Replied:
    """A model answered."""

    place: Place
    agent: str
    attempt: int
    call: ModelCall
    message: MessageDraft
    text: str
    tools: Sequence[ToolStart]
    compacted: Mapping[str, Any] | None = None
    """Of a summary: what became shorter by it."""


@dataclass(frozen=True, slots=True)
class RepliedLate:
    """A model answered an execution that is asked to stop: the answer is kept, and each of its calls ends unbegun."""

    reply: Replied
    outcomes: Sequence[ToolOutcome]


@dataclass(frozen=True, slots=True)
class CallBroken:
    """A model was asked, and there is no answer: the call `failed` or was `cancelled`."""

    place: Place
    id: str
    status: str


@dataclass(frozen=True, slots=True)
class ToolSettled:
    """A tool call has its result."""

    place: Place
    agent: str
    tool: str
    seconds: float
    outcome: ToolOutcome


@dataclass(frozen=True, slots=True)
class Said:
    """A message of ours entered the transcript, perhaps showing deliveries, or a decision that makes it shorter."""

    place: Place
    attempt: int
    message: MessageDraft
    consumed: Sequence[str] = ()
    compacted: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BeganAgain:
    """An attempt failed, and the next one begins with its first message."""

    place: Place
    agent: str
    attempt: int
    deadline: str
    first: MessageDraft
    told: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A person is to be asked about something that no model wants to call."""

    place: Place
    attempt: int
    call: ToolStart


@dataclass(frozen=True, slots=True)
class Waiting:
    """It waits for something, or no longer does."""

    place: Place
    what: str | None
    told: Mapping[str, Any] = field(default_factory=dict)
    """What else is to be said of that."""


@dataclass(frozen=True, slots=True)
class Left:
    """Its process stops, and its model was not being asked."""

    place: Place
    attempt: int


@dataclass(frozen=True, slots=True)
class Ended:
    """It is over."""

    ending: Ending
    agent: str
    seconds: float
    parent: Place | None = None
    totals: Mapping[str, Any] = field(default_factory=dict)
    answer: Answer | None = None
    """Of a top-level execution that works for a user: what is said to them, if it was to answer them."""


@dataclass(frozen=True, slots=True)
class CancelWished:
    """Somebody wants a subtree to stop."""

    wish: CancelWish
    language: str = "en"
    """In which a user is told, whose message it was to answer."""


@dataclass(frozen=True, slots=True)
class Posted:
    """Something was put into a running execution's inbox."""

    place: Place
    id: str
    kind: str
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something worth knowing: an upstream that is down, a prompt that was cut."""

    place: Place
    type: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """A call waits for a person."""

    place: Place
    agent: str
    attempt: int
    new: NewApproval
    arguments: str


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A person said whether a call may run."""

    place: Place
    tool: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class ApprovalUsed:
    """A call that was allowed begins; the deadlines of its execution and its callers have moved."""

    held: Held
    arguments_hash: str
    deadlines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ApprovalClosed:
    """Nobody answered: the question expired or was withdrawn."""

    place: Place
    tool: str
    held: Held
    decision: str


@dataclass(frozen=True, slots=True)
class WaitedInVain:
    """A call was denied: what waited for it goes on."""

    deadlines: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolsPinned:
    """The tools of an upstream server were seen for the first time."""

    server: str
    fingerprints: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ToolDrifted:
    """A tool of an upstream server is not what it was."""

    place: Place
    drift: Drift


@dataclass(frozen=True, slots=True)
class Remembered:
    """Something is to be remembered of a person: facts as category and content."""

    keeper: Keeper
    told: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Amended:
    """What is remembered of a person is not as it was thought."""

    keeper: Keeper
    fact: int
    content: str
    category: str | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Something is no longer to be remembered of a person."""

    keeper: Keeper
    fact: int


@dataclass(frozen=True, slots=True)
class Planned:
    """A version of a plan was made, or has become what its status says."""

    place: Place
    attempt: int
    plan: NewPlan


@dataclass(frozen=True, slots=True)
class PlanMarked:
    """A version of a plan has come further."""

    place: Place
    attempt: int
    version: int
    status: PlanStatus
    more: Mapping[str, Any] = field(default_factory=dict)
    """What its event tells beside that."""


@dataclass(frozen=True, slots=True)
class PlanGivenUp:
    """Nobody goes on with a version of a plan, unless it is over."""

    place: Place
    attempt: int
    version: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """A tree is deleted, with those that learned from its conversation."""

    root: str
    extractions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Configured:
    """The configuration executions run with, and the people it names."""

    hash: str
    body: str
    users: Sequence[NewUser] = ()


GoingOn = Adopted | WentOn | PassedOn | CallLost | Left
"""An execution passes from one process to another, or from one that has ended to its continuation."""

Asking = ApprovalRequested | ApprovalDecided | ApprovalUsed | ApprovalClosed | WaitedInVain
"""A person is asked whether a call may run."""

Memory = Remembered | Amended | Forgotten
"""What is known of a person changes."""

Fact = (
    Spawned
    | Started
    | GoingOn
    | Asking
    | Memory
    | ItemFact
    | Replied
    | RepliedLate
    | CallBroken
    | ToolSettled
    | Said
    | BeganAgain
    | Asked
    | Waiting
    | Ended
    | CancelWished
    | Posted
    | ErrorFact
    | Noticed
    | ToolsPinned
    | ToolDrifted
    | Planned
    | PlanMarked
    | PlanGivenUp
    | Deleted
    | Configured
)
