"""People: who they are, and what they and their assistant said to each other. Their tables, and what is written and read.

Knows nothing of what is done for them. Units are applied by `db/writer.py`, queries run by `db/reads.py`.
Invariant: a user who is known once stays known, because work for one may have to go on.
"""

# SQLModel declares `__tablename__` as something else than the text it asks for.
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, ForeignKey, Index, Text, or_, select, text
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlmodel import Field, SQLModel

from db.clock import stamp
from db.tables import columns_of
from db.unit import Statement

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


class People:
    """Queries over the people of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def user(self, identifier: str) -> Row | None:
        """One user, or None."""
        found = await self._run(select(users).where(users.c.id == identifier))
        return found[0] if found else None
