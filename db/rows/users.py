"""Users and their chat messages: tables, writes and reads.

Knows nothing of what is done for them. Units are applied by `db/store/writer.py`, queries run by `db/rows/reads.py`.
Three promises are kept here: a user who is known once stays known, because work for one may have to go on; a message is
stored with the execution that answers it or not at all, and only when no other one of its user is being answered; its
answer is stored in the transaction in which that execution ends.
"""

# SQLModel declares `__tablename__` as something else than the text it asks for.
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Executable, ForeignKey, Index, Text, bindparam, exists, literal, or_, select, text
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlmodel import Field, SQLModel

from db.clock import stamp
from db.ids import new_id
from db.status import OPEN, ExecutionStatus
from db.store.unit import Added, Statement, Write
from db.tables import columns_of, executions

Row = Mapping[str, Any]


class UserRow(SQLModel, table=True):
    """A person, as a configuration last told; lists are JSON."""

    __tablename__ = "users"

    id: str = Field(primary_key=True)
    name: str
    timezone: str
    locale: str
    capabilities: str = Field(sa_type=Text)
    connections: str = Field(sa_type=Text)
    aliases: str = Field(sa_type=Text)
    updated_at: str


class ChatMessageRow(SQLModel, table=True):
    """What a person said, or was answered; at most one of each for an execution."""

    __tablename__ = "chat_messages"
    __table_args__ = (
        Index("chat_messages_of_user", "user_id", "created_at"),
        Index(
            "chat_messages_of_execution",
            "execution_id",
            "role",
            unique=True,
            sqlite_where=text("execution_id IS NOT NULL"),
        ),
    )

    id: str = Field(primary_key=True)
    user_id: str = Field(sa_column_args=[ForeignKey("users.id")])
    role: str
    content: str = Field(sa_type=Text)
    token_count: int | None = None
    created_at: str
    execution_id: str | None = None


users, chat_messages = SQLModel.metadata.tables["users"], SQLModel.metadata.tables["chat_messages"]


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user as a configuration tells."""

    id: str
    name: str
    timezone: str
    locale: str
    capabilities: str
    connections: str
    aliases: str


_TOLD = tuple(name for name in NewUser.__slots__ if name != "id")
_INTRODUCE = upsert(users)
_INTRODUCE = _INTRODUCE.on_conflict_do_update(
    index_elements=["id"],
    set_={name: _INTRODUCE.excluded[name] for name in (*_TOLD, "updated_at")},
    where=or_(*(users.c[name] != _INTRODUCE.excluded[name] for name in _TOLD)),
)


def introduced(known: Iterable[NewUser]) -> list[Statement]:
    """Remember users as they are told now; one who is remembered so already stays untouched."""
    at = stamp()
    return [Statement(_INTRODUCE, {**columns_of(each), "updated_at": at}) for each in known]


# -- what is said ------------------------------------------------------------------------------------------------------

USER, ASSISTANT = "user", "assistant"

EXTRACTOR = "extractor"
"""The role of an execution that learns from what was said."""
_LEARNED = sorted(each.value for each in (*OPEN, ExecutionStatus.COMPLETED))
_FEW = 10


@dataclass(frozen=True, slots=True)
class NewChatMessage:
    """What a user says; the execution answers it."""

    id: str
    user_id: str
    content: str
    token_count: int
    created_at: str
    execution_id: str
    role: str = USER


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to a user when an execution has ended."""

    execution: str
    content: str
    token_count: int


def _being_answered(user: ColumnElement[Any]) -> ColumnElement[bool]:
    """An open execution that answers a message of a user."""
    said = exists().where(chat_messages.c.execution_id == executions.c.id, chat_messages.c.role == USER)
    return executions.c.user_id.is_not(None) & (executions.c.user_id == user) & executions.c.finished_at.is_(None) & said


_NOBODY_ANSWERS = select(literal(1)).where(~exists(select(executions.c.id).where(_being_answered(bindparam("talker")))))

_said = chat_messages.alias("said")
_COLUMNS = ("id", "user_id", "role", "content", "token_count", "created_at", "execution_id")
_ANSWER = (
    upsert(chat_messages)
    .from_select(
        _COLUMNS,
        select(
            bindparam("message"),
            _said.c.user_id,
            literal(ASSISTANT),
            bindparam("text"),
            bindparam("tokens"),
            bindparam("at"),
            _said.c.execution_id,
        )
        .join(executions, executions.c.id == _said.c.execution_id)
        .where(_said.c.execution_id == bindparam("execution"), _said.c.role == USER, executions.c.finished_at.is_not(None)),
    )
    .on_conflict_do_nothing()
)


def heard(begun: Write, message: NewChatMessage) -> Write:
    """A message and the execution that answers it; refused while another message of its user is being answered."""
    guard = Statement(_NOBODY_ANSWERS, {"talker": message.user_id}, guard=True, looks_around=True)
    return Write([guard, *begun.steps, Added(chat_messages, columns_of(message))], begun.events)


def answered(ended: Write, answer: Answer) -> Write:
    """An end, and what is said to the user whose message this was; nothing where it was none, or where it has not ended."""
    said = {"message": new_id(), "text": answer.content, "tokens": answer.token_count, "at": stamp()}
    statement = Statement(_ANSWER, {**said, "execution": answer.execution}, looks_around=True)
    return Write([*ended.steps, statement], ended.events)


class UserReads:
    """Queries over the people of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def user(self, identifier: str) -> Row | None:
        """One user, or None."""
        found = await self._run(select(users).where(users.c.id == identifier))
        return found[0] if found else None

    async def being_answered(self, user: str) -> str | None:
        """The execution that answers a message of a user at the moment, if any does."""
        found = await self._run(select(executions.c.id).where(_being_answered(literal(user))).limit(1))
        return str(found[0]["id"]) if found else None

    async def was_said_to(self, execution: str) -> bool:
        """Whether an execution was to answer what a user said."""
        mine = chat_messages.c.execution_id == execution, chat_messages.c.role == USER
        return bool(await self._run(select(chat_messages.c.id).where(*mine)))

    async def those(self, ids: Sequence[str]) -> list[Row]:
        """These messages, as far as they are still there, oldest first."""
        return await self._run(
            select(chat_messages).where(chat_messages.c.id.in_(ids)).order_by(chat_messages.c.created_at)
        )

    async def extractions(self, user: str, agent: str) -> list[Row]:
        """The latest executions of an agent that learn from what a user said, newest first; those that failed did not."""
        learned = executions.c.agent == agent, executions.c.role == EXTRACTOR, executions.c.status.in_(_LEARNED)
        query = select(executions).where(*learned, executions.c.user_id == user)
        return await self._run(query.order_by(executions.c.id.desc()).limit(_FEW))

    async def said(self, user: str, after: str, before: str, most: int | None) -> list[Row]:
        """What a user said and was answered from one moment to another: the newest, at most so many, oldest first."""
        query = select(chat_messages).where(
            chat_messages.c.user_id == user, chat_messages.c.created_at >= after, chat_messages.c.created_at < before
        )
        newest = query.order_by(chat_messages.c.created_at.desc(), chat_messages.c.id.desc()).limit(most)
        return list(reversed(await self._run(newest)))
