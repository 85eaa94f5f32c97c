"""The time of a question, and how SQLite answers it.

Owns the figures and the statements that were seen. Must not know: which questions there are. Invariant: a plan is that of a
statement as it was sent, explained by the library that answered it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


@dataclass(frozen=True, slots=True)
class Seen:
    """A statement, with its parameters."""

    sql: str
    parameters: Any


@dataclass(slots=True)
class Figure:
    """The times of one question, in milliseconds, and its plan."""

    times: list[float]
    spent: list[float]
    """Of the processor, by this process and those it started."""
    plan: Sequence[str]
    statements: int
    """How many statements one answer needs."""

    @property
    def shown(self) -> str:
        """The median and the 95th percentile, of the times and of the processor, as cells of a table."""
        return " | ".join(f"{percentile(of, share):.1f}" for of in (self.times, self.spent) for share in (0.5, 0.95))


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@contextmanager
def watched() -> Iterator[list[Seen]]:
    """The statements that any engine of this process sends meanwhile."""
    seen: list[Seen] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        seen.append(Seen(statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def plan_of(connection: Any, sql: str, parameters: Any = ()) -> list[str]:
    """The steps of a statement."""
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]


def scans(connection: Any, sql: str, parameters: Any = ()) -> dict[str, str]:
    """The tables and indexes that a statement reads from one end on, each with its table.

    Taken from the program of the statement: its plan calls tables by their aliases.
    """
    roots = {row[0]: (row[1], row[2]) for row in connection.execute("SELECT rootpage, name, tbl_name FROM sqlite_master")}
    opened, found = {}, {}
    for _, opcode, first, second, *_ in connection.execute(f"EXPLAIN {sql}", parameters):
        if opcode in ("OpenRead", "ReopenIdx"):
            opened[first] = second
        elif opcode in ("Rewind", "Last") and opened.get(first) in roots:
            name, table = roots[opened[first]]
            found[name] = table
    return found
