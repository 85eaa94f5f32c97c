"""The writes of one transaction: inserts are gathered and sent as one statement per table, and flushed where order matters.

Knows no table but `events`. A unit's own rows come after its statements. Invariant: when a guard fails, the changes, rows
and events of its unit are undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from sqlalchemy import Connection, Table
from sqlmodel import SQLModel

from db.store.prepared import Prepared
from db.store.unit import Added, Event, Row, Statement, Ticket
from db.tables import events as events_table


class _GuardFailed(Exception):
    """Aborts a unit whose guard failed."""


@cache
def _tables() -> tuple[Table, ...]:
    """The tables in the order of their references; sorting them costs more than a small commit."""
    return tuple(table for table in SQLModel.metadata.sorted_tables if table is not events_table)


class Batch:
    """Applies units in the order they came."""

    def __init__(self, connection: Connection, prepared: Prepared) -> None:
        self._connection = connection
        self._prepared = prepared
        self._gathered: dict[Table, list[Row]] = {table: [] for table in _tables()}
        self._events: list[Event] = []

    def run(self, tickets: Sequence[Ticket]) -> list[Event]:
        """Apply the units, record on each ticket whether its guards held, and return the events."""
        for ticket in tickets:
            ticket.touched.clear()
            ticket.held = self._apply(ticket)
        self._flush()
        return self._events

    def _apply(self, ticket: Ticket) -> bool:
        events_before = len(self._events)
        added: list[Added] = []
        try:
            if ticket.write.may_fail_halfway:
                self._flush()  # rows gathered by other units must not be rolled back with it
                with self._connection.begin_nested():
                    self._steps(ticket, added)
            else:
                self._steps(ticket, added)
        except _GuardFailed:
            del self._events[events_before:]
            ticket.touched.clear()
            return False
        for each in added:
            self._gathered[each.table].append(each.row)
        self._events.extend(ticket.write.events)
        return True

    def _steps(self, ticket: Ticket, added: list[Added]) -> None:
        """Run the statements; rows are only collected, so that a guard behind them can still refuse the unit."""
        for step in ticket.write.steps:
            if isinstance(step, Added):
                added.append(step)
            else:
                self._execute(step, ticket, added)

    def _execute(self, step: Statement, ticket: Ticket, added: list[Added]) -> None:
        if step.looks_around or self._gathered.get(getattr(step.sql, "table", events_table)):
            self._flush()
        count = self._prepared.run(step)
        if count is None:
            count = self._execute_at_length(step, ticket, added)
        if step.guard and (count != step.expect if step.expect is not None else count < 1):
            raise _GuardFailed

    def _execute_at_length(self, step: Statement, ticket: Ticket, added: list[Added]) -> int:
        """Run a statement with RETURNING or list parameters through SQLAlchemy."""
        result = self._connection.execute(step.sql, step.parameters)
        if not result.returns_rows:
            return result.rowcount
        rows = result.all()
        ticket.touched.extend(rows)
        for each in step.then(rows) if step.then is not None else ():
            if each.table is events_table:
                self._events.append(dict(each.row))
            else:
                added.append(each)
        return len(rows)

    def _flush(self) -> None:
        for table, rows in self._gathered.items():
            if rows:
                self._prepared.insert(table, rows)
                rows.clear()
