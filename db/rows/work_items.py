"""Work items, numbered on their board. Table, writes and reads.

Does not know which agent works on one. Units are applied by `db/store/writer.py`, queries run by `db/rows/reads.py`. Two
invariants: a new number is one more than the highest, taken in the transaction that writes the item, so that no two
processes get the same; and an execution that repeats an addition adds nothing.
"""

# SQLModel declares `__tablename__` with another type than the text it expects.
# pyright: reportAssignmentType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, Index, Text, bindparam, func, select, update
from sqlalchemy.dialects.sqlite import insert
from sqlmodel import Field, SQLModel

from db.clock import stamp
from db.rows.executions import Place, event
from db.rows.transcript import fenced
from db.store.unit import Added, Statement, Write
from db.tables import columns_of, events

Row = Mapping[str, Any]


class WorkItemRow(SQLModel, table=True):
    """One work item; lists are JSON."""

    __tablename__ = "work_items"
    __table_args__ = (Index("work_items_of_execution", "execution_id", "title"),)

    board: str = Field(primary_key=True)
    number: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    title: str = Field(sa_type=Text)
    status: str
    language: str | None = None
    complexity: str | None = None
    plan: str | None = Field(default=None, sa_type=Text)
    depends_on: str = Field(sa_type=Text)
    artifacts: str = Field(sa_type=Text)
    execution_id: str | None = None
    """The execution that added it; None if it comes from the configuration."""
    created_at: str
    updated_at: str


work_items = SQLModel.metadata.tables["work_items"]


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item to add."""

    board: str
    title: str
    status: str
    language: str | None = None
    complexity: str | None = None
    plan: str | None = None
    depends_on: str = "[]"


@dataclass(frozen=True, slots=True)
class ItemChange:
    """A change to an item; None leaves a field as it is. Refused if its artifacts have changed meanwhile."""

    board: str
    number: int
    artifacts_before: str
    artifacts: str
    status: str | None = None
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """The execution that writes, and its attempt."""

    place: Place
    attempt: int

    @property
    def fence(self) -> Statement:
        """The guard that this process still owns the execution."""
        return fenced(self.place.id, self.attempt)

    def tell(self, kind: str) -> Callable[[Sequence[Any]], Iterable[Added]]:
        """The events of the items that a statement touched."""
        return lambda rows: [
            Added(
                events,
                event(self.place, kind, {name: getattr(row, name) for name in ("board", "number", "title", "status")}),
            )
            for row in rows
        ]


_GIVEN = tuple(NewItem.__slots__)
_NUMBERS = work_items.alias("numbers")
_MINE = work_items.alias("mine")
_NEXT = (
    select(func.coalesce(func.max(_NUMBERS.c.number), 0) + 1)
    .where(_NUMBERS.c.board == bindparam("board"))
    .scalar_subquery()
)
_ADDED_BEFORE = (
    select(func.count())
    .select_from(_MINE)
    .where(
        _MINE.c.board == bindparam("board"),
        _MINE.c.execution_id == bindparam("author"),
        _MINE.c.title == bindparam("title"),
    )
    .scalar_subquery()
)
_ADD = (
    insert(work_items)
    .from_select(
        [*_GIVEN, "number", "artifacts", "execution_id", "created_at", "updated_at"],
        select(
            *(bindparam(name) for name in _GIVEN),
            _NEXT,
            bindparam("nothing"),
            bindparam("author"),
            bindparam("at"),
            bindparam("at"),
        ).where(bindparam("earlier") >= _ADDED_BEFORE),
    )
    .returning(*work_items.c)
)


def add(author: Author, item: NewItem, earlier: int) -> Write:
    """Add an item under the next number; adds nothing if its author already has more than `earlier` of that title."""
    parameters = {**columns_of(item), "nothing": "[]", "author": author.place.id, "at": stamp(), "earlier": earlier}
    statement = Statement(_ADD, parameters, then=author.tell("work_item.added"))
    return Write([author.fence, statement])


_CHANGED = ("status", "plan")
_CHANGE = (
    update(work_items)
    .where(
        work_items.c.board == bindparam("on"),
        work_items.c.number == bindparam("item"),
        work_items.c.artifacts == bindparam("before"),
    )
    .values(
        {
            **{name: func.coalesce(bindparam(f"new_{name}"), work_items.c[name]) for name in _CHANGED},
            "artifacts": bindparam("after"),
            "updated_at": bindparam("at"),
        }
    )
    .returning(*work_items.c)
)


def change(author: Author, wanted: ItemChange) -> Write:
    """Change an item; refused if there is none, or another execution has added an artifact meanwhile."""
    parameters = {
        "on": wanted.board,
        "item": wanted.number,
        "before": wanted.artifacts_before,
        "after": wanted.artifacts,
        "at": stamp(),
        **{f"new_{name}": getattr(wanted, name) for name in _CHANGED},
    }
    return Write([author.fence, Statement(_CHANGE, parameters, guard=True, then=author.tell("work_item.changed"))])


_PUT_UP = insert(work_items).on_conflict_do_nothing(index_elements=["board", "number"])


def put_up(items: Mapping[int, NewItem]) -> Write:
    """Add the items of a configuration under their numbers; existing ones stay as they are."""
    at = stamp()
    fixed = {"artifacts": "[]", "execution_id": None, "created_at": at, "updated_at": at}
    return Write([Statement(_PUT_UP, {**columns_of(item), "number": number, **fixed}) for number, item in items.items()])


class WorkItems:
    """Queries over the items of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def one(self, board: str, number: int) -> Row | None:
        """One item, or None."""
        found = await self._run(select(work_items).where(work_items.c.board == board, work_items.c.number == number))
        return found[0] if found else None

    async def all(self, board: str) -> list[Row]:
        """The items of a board, by number."""
        return await self._run(select(work_items).where(work_items.c.board == board).order_by(work_items.c.number))

    async def added_by(self, execution: str, board: str, title: str) -> list[Row]:
        """The items of this title that an execution has added, by number."""
        mine = (work_items.c.execution_id == execution, work_items.c.board == board, work_items.c.title == title)
        return await self._run(select(work_items).where(*mine).order_by(work_items.c.number))
