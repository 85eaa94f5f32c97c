"""Users and their chat messages: tables, writes and reads.

Does not know the work done for users. Units are applied by `db/store/writer.py`, queries run by `db/rows/reads.py`.
Three invariants: a stored user is never removed, because work for one may have to resume; a message is stored with the
execution that answers it or not at all, and only while no other message of its user is being answered; its answer is
stored in the transaction in which that execution ends.
"""

# SQLModel declares `__tablename__` with another type than the text it expects.
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Executable,
    ForeignKey,
    Index,
    Text,
    bindparam,
    exists,
    literal,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlmodel import Field, SQLModel

from db.clock import stamp
from db.ids import new_id
from db.status import OPEN, ExecutionStatus
from db.store.unit import Added, Statement, Write
from db.tables import columns_of, executions, unindexed

Row = Mapping[str, Any]


class UserRow(SQLModel, table=True):
    """A user as last configured; lists are JSON."""

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
    """A message of a user or an answer; at most one of each for an execution."""

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
    """A configured user."""

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
    """Store or update users; an unchanged one is not written."""
    at = stamp()
    return [Statement(_INTRODUCE, {**columns_of(each), "updated_at": at}) for each in known]


# -- messages ----------------------------------------------------------------------------------------------------------

USER, ASSISTANT = "user", "assistant"

EXTRACTOR = "extractor"
"""The role of an execution that extracts facts from a conversation."""
IS_EXTRACTION = executions.c.role == literal_column(f"'{EXTRACTOR}'")
"""Without a parameter, as its index has it."""
_LEARNED = sorted(each.value for each in (*OPEN, ExecutionStatus.COMPLETED))
_FEW = 10


@dataclass(frozen=True, slots=True)
class NewChatMessage:
    """A message of a user, and the execution that answers it."""

    id: str
    user_id: str
    content: str
    token_count: int
    created_at: str
    execution_id: str
    role: str = USER


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """The answer to a user's message, stored when its execution ends."""

    execution: str
    content: str
    token_count: int


def _being_answered(user: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether an execution is open and answers a message of the user."""
    said = exists().where(chat_messages.c.execution_id == executions.c.id, chat_messages.c.role == USER)
    return executions.c.user_id.is_not(None) & (executions.c.user_id == user) & executions.c.finished_at.is_(None) & said


_NONE_ANSWERED = select(literal(1)).where(~exists(select(executions.c.id).where(_being_answered(bindparam("talker")))))

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
    """Store a message with the execution that answers it; refused while another message of its user is being answered."""
    guard = Statement(_NONE_ANSWERED, {"talker": message.user_id}, guard=True, looks_around=True)
    return Write([guard, *begun.steps, Added(chat_messages, columns_of(message))], begun.events)


def answered(ended: Write, answer: UserAnswer) -> Write:
    """Add the answer to an execution's end; nothing is stored if it answers no message or has not ended."""
    said = {"message": new_id(), "text": answer.content, "tokens": answer.token_count, "at": stamp()}
    statement = Statement(_ANSWER, {**said, "execution": answer.execution}, looks_around=True)
    return Write([*ended.steps, statement], ended.events)


class UserReads:
    """Queries over the users of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def user(self, identifier: str) -> Row | None:
        """One user, or None."""
        found = await self._run(select(users).where(users.c.id == identifier))
        return found[0] if found else None

    async def being_answered(self, user: str) -> str | None:
        """The open execution that answers a message of a user, or None."""
        found = await self._run(select(executions.c.id).where(_being_answered(literal(user))).limit(1))
        return str(found[0]["id"]) if found else None

    async def was_said_to(self, execution: str) -> bool:
        """Whether an execution answers a message of a user."""
        mine = chat_messages.c.execution_id == execution, chat_messages.c.role == USER
        return bool(await self._run(select(chat_messages.c.id).where(*mine)))

    async def those(self, ids: Sequence[str]) -> list[Row]:
        """The messages with these ids that still exist, oldest first."""
        return await self._run(
            select(chat_messages).where(chat_messages.c.id.in_(ids)).order_by(chat_messages.c.created_at)
        )

    async def extractions(self, user: str, agent: str) -> list[Row]:
        """An agent's latest extractions from a user's messages, newest first, without failed ones."""
        learned = unindexed(executions.c.agent) == agent, IS_EXTRACTION, unindexed(executions.c.status).in_(_LEARNED)
        query = select(executions).where(*learned, executions.c.user_id == user)
        return await self._run(query.order_by(executions.c.id.desc()).limit(_FEW))

    async def said(self, user: str, after: str, before: str, most: int | None) -> list[Row]:
        """The newest messages and answers of a user in a period, at most `most`, oldest first."""
        query = select(chat_messages).where(
            chat_messages.c.user_id == user, chat_messages.c.created_at >= after, chat_messages.c.created_at < before
        )
        newest = query.order_by(chat_messages.c.created_at.desc(), chat_messages.c.id.desc()).limit(most)
        return list(reversed(await self._run(newest)))
