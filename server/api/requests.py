"""What requests say: the bodies of what changes something, the queries of what is looked at, and the short answers to both.

Owns these shapes. Invariant: a field that is not known is refused, and no text is taken for a number.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from db.ids import LAST, PATTERN
from db.status import ExecutionStatus
from registry.text.durations import LONGEST
from server.views.answers import Action
from server.views.columns import ViewModel
from server.views.filters import Group
from server.views.trees import MOST_NODES

MOST_LISTED = 200
MOST_TEXT = 20_000
MOST_SQL = 20_000
MOST_DAYS = 366
LARGEST = 2**63 - 1
"""Of the numbers in a row."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(min_length=1, max_length=MOST_TEXT, pattern=r"\S")]
Reason = Annotated[str, Field(max_length=2_000)]


class Body(BaseModel):
    """The body of a request."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Query(BaseModel):
    """The query of a request; its values are text."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")


# -- bodies ------------------------------------------------------------------------------------------------------------


class TokenBody(Body):
    """A one-time token, or a bearer token."""

    token: Annotated[str, Field(min_length=1, max_length=8_192)]


class StartBody(Body):
    """An agent or a chain, and what it is to do."""

    name: Name
    task: Annotated[str, Field(max_length=MOST_TEXT)] = ""
    input: dict[str, Any] | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=LONGEST)] | None = None
    budget_usd: Annotated[float, Field(gt=0)] | None = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class CancelBody(Body):
    """Why it is cancelled."""

    reason: Reason = ""


class MessageBody(Body):
    """What an agent should know or do."""

    text: Text


class ResumeBody(Body):
    """What an agent should know or do when it goes on."""

    text: Annotated[str, Field(max_length=MOST_TEXT)] = ""


class RerunBody(Body):
    """From which execution on, and with which task."""

    start: Name | None = Field(default=None, alias="from")
    task: Text | None = None


class DecisionBody(Body):
    """A decision about a call, by the digest of what the person saw."""

    shown: Annotated[str, Field(min_length=1, max_length=200)]
    reason: Reason = ""


class SqlBody(Body):
    """One read-only statement."""

    sql: Annotated[str, Field(min_length=1, max_length=MOST_SQL)]


class NoBody(Body):
    """Nothing."""


# -- queries -----------------------------------------------------------------------------------------------------------


ID_OR_LAST = f"(?:{PATTERN.pattern}|{LAST})"
PageCursor = Annotated[str, Field(max_length=200, pattern=f"^(?:[0-9TZ:.-]+~)?{ID_OR_LAST}$")]
"""The `next_cursor` of a page of executions: the id it ended with, and the end of that execution where pages go by it."""
ErrorCursor = Annotated[str, Field(max_length=200, pattern="^[0-9TZ:.-]+~[^~]+$")]
"""The `next_cursor` of a page of errors: when the last one was last seen, and its id."""


class ListQuery(Query):
    """Which executions."""

    group: Group | None = None
    status: ExecutionStatus | None = None
    agent: Name | None = None
    q: Annotated[str, Field(max_length=200)] | None = None
    all: bool = False
    cursor: PageCursor | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = 50


class AfterQuery(Query):
    """The number of an event."""

    after: Annotated[int, Field(ge=0, le=LARGEST)] | None = None


class TreeQuery(AfterQuery):
    """What of a tree: what changed after an event, or so many executions nearest to its top; else all of it."""

    first: Annotated[int, Field(ge=1, le=MOST_NODES)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.after is not None and self.first is not None:
            raise ValueError("`after` and `first` exclude each other")
        return self


class FromQuery(Query):
    """The position of a message."""

    start: Annotated[int, Field(ge=0, le=LARGEST, alias="from")] = 0


class ActionQuery(Query):
    """What is to be done."""

    action: Action = "cancel"


class ErrorQuery(Query):
    """Which recorded errors."""

    execution: Name | None = None
    type: Name | None = None
    agent: Name | None = None
    severity: Name | None = None
    open: bool = False
    cursor: ErrorCursor | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_LISTED)] = 50


class DaysQuery(Query):
    """How many days."""

    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 30


class SqlQuery(Query):
    """One read-only statement."""

    sql: Annotated[str, Field(max_length=MOST_SQL)] = ""


class PairQuery(Query):
    """Two executions."""

    a: Name
    b: Name


# -- short answers -----------------------------------------------------------------------------------------------------


class SessionState(ViewModel):
    """Who asks, and what this server is."""

    principal: str | None
    """None: a person at this machine."""
    local: bool
    reads_all: bool
    demo: bool
    """The offline demo can be started here."""
    version: str
    database: str
    """A name without folders."""


class StartAnswer(ViewModel):
    """An execution that was started."""

    execution_id: str
    status: str


class ActionAnswer(ViewModel):
    """What an action came to."""

    status: Literal["requested", "already_finished", "accepted", "continued", "resumed", "rerun"]
    execution_id: str
    """The execution that goes on: the same one, or a new one."""


class Consequences(ViewModel):
    """What an action will do, before it is done."""

    words: list[str]
    executions: int
    running: int
    pending: int


class DecisionAnswer(ViewModel):
    """How a question was decided."""

    status: Literal["approved", "denied"]


class PlanView(ViewModel):
    """The plan of an execution, or the tasks of its iteration, as `execution://{id}/plan` has it."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")
