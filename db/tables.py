"""The tables, as SQLModel classes, and conditions over their rows. Migrations create the tables; a test proves they agree.

Times are text (UTC, ISO-8601), JSON is text, so that rows look the same in SQLite, PostgreSQL and a shell.
"""

# SQLModel declares `__tablename__` with another type than the text it expects.
# pyright: reportAssignmentType=false

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    ForeignKey,
    Index,
    ScalarSelect,
    Table,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.sql.elements import UnaryExpression
from sqlalchemy.sql.operators import custom_op
from sqlmodel import Field, SQLModel

from db.ids import ALPHABET, LAST, LEAST_ENDING, PATTERN, RANDOM_DIGITS, SHORT, TIME_DIGITS


class ExecutionRow(SQLModel, table=True):
    """One execution: an agent that works on a task."""

    __tablename__ = "executions"
    __table_args__ = (
        Index("executions_siblings", "parent_execution_id", text("coalesce(stage, '')"), "position", unique=True),
        Index("executions_root", "root_execution_id"),
        Index("executions_created", "created_at"),
        Index("executions_open", "owner", sqlite_where=text("finished_at IS NULL")),
        Index(
            "executions_idempotency",
            "parent_execution_id",
            "idempotency_key",
            unique=True,
            sqlite_where=text("idempotency_key IS NOT NULL"),
        ),
        Index("executions_of_principal", "principal", "id", "agent", "status", sqlite_where=text("principal IS NOT NULL")),
        Index("executions_open_of_user", "user_id", sqlite_where=text("user_id IS NOT NULL AND finished_at IS NULL")),
        Index("executions_in_status", "status", "id"),
        Index("executions_finished", "finished_at", sqlite_where=text("finished_at IS NOT NULL")),
        Index("executions_of_agent", "agent", "id", "status", "principal"),
        Index("executions_roots", "parent_execution_id", "id", "status", sqlite_where=text("parent_execution_id IS NULL")),
        Index(
            "executions_roots_of_principal",
            *("principal", "id", "agent", "status", "parent_execution_id"),
            sqlite_where=text("parent_execution_id IS NULL AND principal IS NOT NULL"),
        ),
        Index(
            "executions_roots_of_agent",
            *("agent", "id", "status", "principal", "parent_execution_id"),
            sqlite_where=text("parent_execution_id IS NULL"),
        ),
        Index("executions_of_session", "session_id", "id", sqlite_where=text("session_id IS NOT NULL")),
        Index("executions_ending", text("substr(id, -6)")),
        Index(
            "executions_commands",
            *("agent", text("coalesce(principal, '')"), "id"),
            sqlite_where=text("parent_execution_id IS NULL AND substr(task, 1, 1) = '/'"),
        ),
        Index("executions_extractors", "user_id", "id", sqlite_where=text("role = 'extractor'")),
        Index(
            "executions_ended_badly",
            *("parent_execution_id", "finished_at", "id", "status", "principal", "agent"),
            sqlite_where=text(
                "parent_execution_id IS NULL AND finished_at IS NOT NULL AND (status IN ('blocked', 'failed', 'timed_out') "
                "OR reason IN ('cost_budget', 'token_budget'))"
            ),
        ),
        Index("executions_continuing", "continues_execution_id", sqlite_where=text("continues_execution_id IS NOT NULL")),
        Index(
            "executions_root_keys",
            text("coalesce(principal, '')"),
            "idempotency_key",
            unique=True,
            sqlite_where=text("parent_execution_id IS NULL AND idempotency_key IS NOT NULL"),
        ),
    )

    id: str = Field(primary_key=True)
    parent_execution_id: str | None = Field(default=None, sa_column_args=[ForeignKey("executions.id")])
    root_execution_id: str
    session_id: str | None = None
    principal: str | None = None
    owner: str | None = None
    agent: str
    role: str
    strategy: str
    stage: str | None = None
    position: int = 1
    step_id: str | None = None
    depends_on: str | None = Field(default=None, sa_type=Text)
    tool_call_id: str | None = Field(default=None, unique=True)
    idempotency_key: str | None = None
    continues_execution_id: str | None = None
    task: str | None = Field(default=None, sa_type=Text)
    input: str | None = Field(default=None, sa_type=Text)
    status: str
    waiting_for: str | None = None
    outcome: str | None = None
    reason: str | None = None
    result: str | None = Field(default=None, sa_type=Text)
    error_type: str | None = None
    error: str | None = Field(default=None, sa_type=Text)
    depth: int = 0
    path: str
    attempt: int = 1
    timeout_seconds: float | None = None
    deadline_at: str | None = None
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    cancel_requested_at: str | None = None
    cancelled_by: str | None = None
    cancel_reason: str | None = None
    model: str | None = None
    turns: int = 0
    tool_call_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0
    budget_usd: float | None = None
    budget_reserved_usd: float = 0.0
    budget_tokens: int | None = None
    config_hash: str | None = None
    budget_from_execution_id: str | None = None
    """The execution whose `budget_reserved_usd` holds this one's budget while it is open."""
    user_id: str | None = None
    """The user it works for."""
    delegation_path: str | None = Field(default=None, sa_type=Text)
    """JSON: its path, with the commands that agents carry out; None if there is no command in it."""
    trace_context: str | None = Field(default=None, sa_type=Text)
    """JSON: the trace context a root was started with; a resumed tree goes on in its trace."""


class EventRow(SQLModel, table=True):
    """An event; `seq` is taken under the commit lock, so replay by it never misses one."""

    __tablename__ = "events"
    __table_args__ = (
        Index("events_root", "root_execution_id", "seq"),
        Index(
            "events_stages",
            *("root_execution_id", "seq"),
            sqlite_where=text("type = 'execution.progress' AND json_extract(payload, '$.stage') IS NOT NULL"),
        ),
        Index(
            "events_refused",
            *("root_execution_id", "seq"),
            sqlite_where=text("""type = 'timeline_event.completed' AND instr(payload, '"refused":') > 0"""),
        ),
        Index(
            "events_upstream",
            *("root_execution_id", "seq"),
            sqlite_where=text("type >= 'upstream.' AND type < 'upstream/'"),
        ),
    )

    seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    execution_id: str = Field(index=False)
    parent_execution_id: str | None = None
    root_execution_id: str
    type: str
    payload: str = Field(sa_type=Text)
    at: str
    session_id: str | None = None
    """The session of its execution."""


class EventNumberRow(SQLModel, table=True):
    """One row: the greatest number of a deleted event. No number is given twice: a listener that returns misses nothing."""

    __tablename__ = "event_numbers"

    last: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})


class MessageRow(SQLModel, table=True):
    """One message of a transcript. Tool results are not repeated here: they are in `tool_calls`."""

    __tablename__ = "messages"
    __table_args__ = (Index("messages_execution", "execution_id", "position", unique=True),)

    id: str = Field(primary_key=True)
    execution_id: str
    position: int
    role: str
    kind: str
    content: str = Field(sa_type=Text)
    created_at: str
    data: str | None = Field(default=None, sa_type=Text)


class ModelCallRow(SQLModel, table=True):
    """One call of a model, with its usage and price."""

    __tablename__ = "model_calls"
    __table_args__ = (Index("model_calls_execution", "execution_id"),)

    id: str = Field(primary_key=True)
    execution_id: str
    turn: int
    model: str
    stop_reason: str | None = None
    request_id: str | None = None
    rehearsed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float = 0.0
    pricing: str
    started_at: str
    finished_at: str
    cache_write_1h_tokens: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Of the tokens written to the cache, those that stay for an hour."""


class ToolCallRow(SQLModel, table=True):
    """One tool call and, once it has one, its result."""

    __tablename__ = "tool_calls"
    __table_args__ = (
        Index("tool_calls_execution", "execution_id"),
        Index("tool_calls_ending", text("substr(call_id, -6)")),
        Index(
            "tool_calls_failed",
            *("tool", "error_type"),
            sqlite_where=text("status = 'unknown' OR (is_error = 1 AND error_type IS NOT 'cancelled')"),
        ),
    )

    id: str = Field(primary_key=True)
    execution_id: str
    message_id: str
    position: int
    call_id: str
    tool: str
    server: str
    arguments: str = Field(sa_type=Text)
    effect: str
    status: str
    is_error: int | None = None
    error_type: str | None = None
    result: str | None = Field(default=None, sa_type=Text)
    full_result: str | None = Field(default=None, sa_type=Text)
    started_at: str
    finished_at: str | None = None


class DeliveryRow(SQLModel, table=True):
    """An item in an execution's inbox: a child's end, a message, a request to wrap up."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("deliveries_waiting", "execution_id", "consumed_at"),
        Index("deliveries_of_child", "child_execution_id", sqlite_where=text("child_execution_id IS NOT NULL")),
    )

    id: str = Field(primary_key=True)
    execution_id: str
    child_execution_id: str | None = None
    kind: str
    payload: str | None = Field(default=None, sa_type=Text)
    created_at: str
    consumed_at: str | None = None
    consumed_by: str | None = None


class ApprovalRow(SQLModel, table=True):
    """A call that waits for a person's decision, and the decision: for these arguments, once, until it expires."""

    __tablename__ = "approvals"
    __table_args__ = (
        Index("approvals_open", "tool_call_id", unique=True, sqlite_where=text("decision IS NULL")),
        Index("approvals_root", "root_execution_id"),
    )

    id: str = Field(primary_key=True)
    execution_id: str
    root_execution_id: str
    tool_call_id: str
    principal: str | None = None
    kind: str
    tool: str
    arguments_hash: str
    requested_at: str
    expires_at: str
    decision: str | None = None
    decided_by: str | None = None
    reason: str | None = Field(default=None, sa_type=Text)
    decided_at: str | None = None
    used_at: str | None = None
    seal: str = ""
    """A secret of the question; read-only SQL cannot read it."""


class ErrorRecordRow(SQLModel, table=True):
    """A recorded error; a repeated one is counted, not stored again."""

    __tablename__ = "error_records"
    __table_args__ = (Index("error_records_execution", "execution_id"),)

    id: str = Field(primary_key=True)
    fingerprint: str = Field(unique=True)
    execution_id: str
    type: str
    severity: str
    message: str = Field(sa_type=Text)
    context: str = Field(sa_type=Text)
    stack_trace: str | None = Field(default=None, sa_type=Text)
    fix_status: str = "not_addressed"
    fix_plan_ref: str | None = None
    fix_task_ref: str | None = None
    recurrence_count: int = 1
    first_seen: str
    last_seen: str


class ConfigSnapshotRow(SQLModel, table=True):
    """The effective configuration executions ran with, secrets by reference."""

    __tablename__ = "config_snapshots"

    hash: str = Field(primary_key=True)
    body: str = Field(sa_type=Text)
    created_at: str


class UpstreamToolRow(SQLModel, table=True):
    """The last known definition of an upstream tool."""

    __tablename__ = "upstream_tools"

    server: str = Field(primary_key=True)
    tool: str = Field(primary_key=True)
    fingerprint: str
    first_seen: str
    changed_at: str


class DailyTotalRow(SQLModel, table=True):
    """What the ended executions of an agent with a model used that were created on a day. Triggers keep it in step."""

    __tablename__ = "daily_totals"

    agent: str = Field(primary_key=True)
    day: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    executions: int
    completed: int
    failed: int
    cancelled: int
    turns: int
    tool_calls: int
    tokens: int
    cost_usd: float
    input_tokens: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    output_tokens: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    cache_read_tokens: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    cache_write_tokens: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    seconds: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})
    price_kinds: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """The kinds of price of its calls: 1 priced, 2 partly, 4 unpriced, 8 rehearsed."""


class FactRow(SQLModel, table=True):
    """A fact about a user. Triggers keep the full-text index `facts_text` in step."""

    __tablename__ = "facts"
    __table_args__ = (Index("facts_once", "user_id", "folded", unique=True), {"sqlite_autoincrement": True})

    id: int | None = Field(default=None, primary_key=True)
    user_id: str
    category: str
    content: str = Field(sa_type=Text)
    folded: str = Field(sa_type=Text)
    """The normalised content, for comparison and search."""
    created_at: str
    updated_at: str
    source_execution_id: str
    """The execution that wrote it last. Kept when that execution is deleted: the fact belongs to its user."""


def _table(name: str) -> Table:
    return SQLModel.metadata.tables[name]


executions, messages, tool_calls = _table("executions"), _table("messages"), _table("tool_calls")
model_calls, deliveries, error_records = _table("model_calls"), _table("deliveries"), _table("error_records")
config_snapshots, events, event_numbers = _table("config_snapshots"), _table("events"), _table("event_numbers")
upstream_tools, approvals, facts = _table("upstream_tools"), _table("approvals"), _table("facts")
daily_totals = _table("daily_totals")


def newest_event() -> ScalarSelect[int]:
    """The greatest number that an event has or had; 0 without any."""
    numbers: Any = union_all(select(func.max(events.c.seq).label("seq")), select(event_numbers.c.last)).subquery()
    return select(func.coalesce(func.max(numbers.c.seq), 0)).scalar_subquery()


def of_key() -> ColumnElement[bool]:
    """The top-level execution that the principal `:asker` (empty for none) started with the idempotency key `:key`."""
    return and_(
        executions.c.parent_execution_id.is_(None),
        func.coalesce(executions.c.principal, literal_column("''")) == bindparam("asker"),
        executions.c.idempotency_key == bindparam("key"),
    )


def below(top: str) -> CTE:
    """The ids of an execution and everything below it."""
    found = select(executions.c.id).where(executions.c.id == top).cte("below", recursive=True)
    child = executions.alias("child")
    return found.union_all(select(child.c.id).where(child.c.parent_execution_id == found.c.id))


def unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A column whose condition is checked row by row: the index of another condition leaves fewer rows.

    Without statistics, the planner would have to guess which one does.
    """
    return UnaryExpression(column, operator=custom_op("+"), type_=column.type)


def each_of(values: Sequence[str]) -> TableValuedAlias:
    """Values as the rows of a table with the column `value`: one parameter, however many there are."""
    return func.json_each(json.dumps(list(values))).table_valued("value")


def columns_of(row: Any) -> dict[str, Any]:
    """The columns of a row that is a flat, slotted dataclass."""
    return {name: getattr(row, name) for name in row.__slots__}


def ending(identifiers: ColumnElement[str]) -> ColumnElement[str]:
    """The last six characters, as the indexes have them: with the number as a parameter, none would be searched."""
    return func.substr(identifiers, literal_column(str(-SHORT)))


def ends_with(identifiers: ColumnElement[str], given: str) -> ColumnElement[bool]:
    """The rows with this end, of at least four characters."""
    if len(given) < SHORT:
        missing = product(ALPHABET, repeat=SHORT - len(given))
        return ending(identifiers).in_(["".join((*each, given)) for each in missing])
    return and_(ending(identifiers) == given[-SHORT:], func.substr(identifiers, -len(given)) == given)


def meanings(identifiers: ColumnElement[str], given: str) -> Iterator[ColumnElement[bool]]:
    """The rows that a whole id, its beginning or its end may mean: conditions to try in order."""
    if not 0 < len(given) <= TIME_DIGITS + RANDOM_DIGITS or not set(given) <= set(ALPHABET):
        return
    if PATTERN.fullmatch(given):
        yield identifiers == given
        return
    yield and_(identifiers >= given, identifiers < given + LAST)
    if len(given) >= LEAST_ENDING:
        yield ends_with(identifiers, given)
