"""A unit of writing, committed as a whole or not at all, and the ticket of one that is queued.

Owns the vocabulary between `db/rows`, which builds units, and the writer, which applies them. Knows no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Executable, Table

from db.errors import StoreError
from db.latch import Latch

Row = Mapping[str, Any]
Event = dict[str, Any]
"""A row of `events`; the writer gives it its `seq`."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A prebuilt statement and its parameters. A guard must touch (or find) `expect` rows, or at least one if None."""

    sql: Executable
    parameters: Row
    guard: bool = False
    expect: int | None = None
    looks_around: bool = False
    """Whether it reads other rows than its own: inserts queued before it are then flushed first."""
    then: Callable[[Sequence[Any]], Iterable[Added]] | None = None
    """For statements with RETURNING: the rows to add for the rows it touched."""


@dataclass(frozen=True, slots=True)
class Added:
    """A row to insert. Rows of one table always have the same keys."""

    table: Table
    row: Row


@dataclass(frozen=True, slots=True)
class Write:
    """One unit, all or nothing, with its events."""

    steps: Sequence[Statement | Added]
    events: Sequence[Event] = ()

    @property
    def may_fail_halfway(self) -> bool:
        """Whether a guard could fail after a row was changed: by an earlier step, or by itself with too few rows."""
        changed = False
        for step in self.steps:
            if isinstance(step, Statement):
                if step.guard and (changed or step.expect is not None):
                    return True
                changed = changed or not step.sql.is_select
        return False


@dataclass(slots=True)
class Ticket:
    """A queued write; `held` is known once `done` is set."""

    write: Write
    patient: bool = True
    """Whether it waits for the end of an outage of the database; otherwise it fails with the reason."""
    awaited: bool = False
    """Whether its caller waits for the commit."""
    done: Latch = field(default_factory=Latch)
    held: bool = False
    touched: list[Any] = field(default_factory=list)
    error: StoreError | None = None

    def fail(self, error: StoreError) -> None:
        """Mark it failed: nothing of it was applied."""
        self.held, self.error = False, error
