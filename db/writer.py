"""The one writer of a process: a thread that commits the writes of many executions together.

Owns the queue, the commit lock and the numbering of events. It knows no table but `events`; what a write means is said in
`db/writes.py`. Its invariants:

* A write is all or nothing: if one of its guards does not hold, nothing of it is applied.
* Writes take effect in the order they were handed in. Plain inserts of a batch are gathered and sent as one statement per
  table, but a statement that looks at other rows first flushes the inserts queued before it.
* A write is visible (its caller wakes, its events are published) only after the commit that holds it.
* Cancelling a caller never undoes its write.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from sqlalchemy import Connection, Engine, Executable, Insert, Table, func, insert, select
from sqlmodel import SQLModel

from db.engine import checkpoint, open_writer
from db.errors import DatabaseUnavailable, StoreError, WriterClosed
from db.lock import FileLock
from db.migrate import migrate
from db.tables import events as events_table
from db.trouble import told, unavailable

log = logging.getLogger("outrider.writer")

Row = Mapping[str, Any]
Event = dict[str, Any]
"""A row of `events`; the writer gives it its `seq`."""

BATCH = 256
"""Writes per commit: enough to make the fsync cheap, small enough that nobody waits long behind a crowd."""
LOCK_SECONDS = 30.0
PAGE = 4096
CHECKPOINT_PAGES = 2_000
"""Pages in the WAL before it is folded back into the database: 8 MB."""
CHECKPOINT_PAUSE = 1.0
"""Seconds until the next try when a reader was in the way: it must not cost every commit an attempt."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A prebuilt statement and its parameters. A guard must touch (or find) `expect` rows, or at least one if None."""

    sql: Executable
    parameters: Row
    guard: bool = False
    expect: int | None = None
    looks_around: bool = False
    """Whether it reads rows other than its own, so that inserts queued before it must be flushed first."""
    then: Callable[[Sequence[Any]], Iterable[Added]] | None = None
    """For statements with RETURNING: the rows to add for the rows it touched."""


@dataclass(frozen=True, slots=True)
class Added:
    """A row to insert."""

    table: Table
    row: Row


@dataclass(frozen=True, slots=True)
class Write:
    """One unit, all or nothing, with the events it makes."""

    steps: Sequence[Statement | Added]
    events: Sequence[Event] = ()


@dataclass(slots=True)
class Ticket:
    """A write on its way; `held` is known once `done` is set."""

    write: Write
    done: anyio.Event
    held: bool = False
    touched: list[Any] = field(default_factory=list)
    error: StoreError | None = None

    def fail(self, error: StoreError) -> None:
        """Nothing of it was applied."""
        self.held, self.error = False, error


class _GuardFailed(Exception):
    """Leaves the savepoint of a write whose guard did not hold."""


class Writer:
    """Group commit for one database. Use as an async context manager."""

    def __init__(self, path: Path, publish: Callable[[Sequence[Event]], None]) -> None:
        self._path = path
        self._publish = publish
        """Called in the event loop with the committed events, in order, before the writers wake."""
        self._queue: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._inserts: dict[Table, Insert] = {table: insert(table) for table in SQLModel.metadata.sorted_tables}
        self._last_seq = select(func.coalesce(func.max(events_table.c.seq), 0))
        self._closed = False
        self._next_checkpoint = 0.0

    async def __aenter__(self) -> Writer:
        self._token = anyio.lowlevel.current_token()
        self._engine, self._lock = await anyio.to_thread.run_sync(self._open)
        self._thread = threading.Thread(target=self._work, name="outrider-writer", daemon=True)
        self._thread.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        self._queue.put(None)
        with anyio.CancelScope(shield=True):  # bounded by LOCK_SECONDS: what was handed in is committed first
            await anyio.to_thread.run_sync(self._thread.join)

    async def apply(self, write: Write, *, shielded: bool = False) -> Ticket:
        """Commit `write`; returns when it is durable. `held` tells whether its guards held.

        A caller that is cancelled leaves, and its write goes on. With `shielded` the caller stays until it knows.
        """
        ticket = self.post(write)
        with anyio.CancelScope(shield=shielded):  # bounded by the writer, which never waits longer than LOCK_SECONDS
            await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket

    def post(self, write: Write) -> Ticket:
        """Hand in `write` without waiting; later writes still come after it."""
        if self._closed:
            raise WriterClosed
        ticket = Ticket(write, anyio.Event())
        self._queue.put(ticket)
        return ticket

    # What follows runs in threads.

    def _open(self) -> tuple[Engine, FileLock]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DatabaseUnavailable(
                f"cannot create the folder `{self._path.parent}`: {error.strerror}", "name another database with `--db`"
            ) from error
        lock = FileLock(self._path.with_name(self._path.name + "-lock"))
        lock.acquire(LOCK_SECONDS)
        try:
            engine = open_writer(self._path)
            try:
                with engine.connect() as connection:
                    migrate(connection, str(self._path))
            except BaseException:
                engine.dispose()
                raise
        except BaseException as error:
            lock.close()
            if isinstance(error, StoreError) or not isinstance(error, Exception):
                raise
            raise unavailable(self._path, error) from error
        lock.release()
        return engine, lock

    def _work(self) -> None:
        with self._engine.connect() as connection:
            open_ = True
            while open_:
                batch = self._take()
                if batch[-1] is None:
                    batch.pop()
                    open_ = False
                tickets = [ticket for ticket in batch if ticket is not None]
                if tickets:
                    events = self._commit_all(connection, tickets)
                    anyio.from_thread.run_sync(self._wake, tickets, events, token=self._token)
        self._finish()

    def _take(self) -> list[Ticket | None]:
        batch = [self._queue.get()]
        while len(batch) < BATCH and batch[-1] is not None:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _wake(self, tickets: list[Ticket], events: list[Event]) -> None:
        try:
            if events:
                self._publish(events)
        except Exception:
            log.exception("%d events were committed but not published", len(events))
        for ticket in tickets:
            ticket.done.set()

    def _commit_all(self, connection: Connection, tickets: list[Ticket]) -> list[Event]:
        try:
            self._lock.acquire(LOCK_SECONDS)
            try:
                return self._commit(connection, tickets)
            finally:
                self._lock.release()
        except Exception as error:
            log.exception("a batch of %d writes failed", len(tickets))
            for ticket in tickets:
                ticket.fail(told(self._path, error))
            return []

    def _commit(self, connection: Connection, tickets: list[Ticket]) -> list[Event]:
        try:
            events = _Batch(connection, self._inserts).run(tickets)
            if events:
                last: int = connection.execute(self._last_seq).scalar_one()
                for number, event in enumerate(events, last + 1):
                    event["seq"] = number
                connection.execute(self._inserts[events_table], events)
            connection.commit()
        except Exception as error:
            connection.rollback()
            trouble = told(self._path, error)
            if len(tickets) == 1 or isinstance(trouble, DatabaseUnavailable):
                log.error("%d writes failed: %s", len(tickets), trouble)
                for ticket in tickets:
                    ticket.fail(told(self._path, error))
                return []
            # One bad row must fail its owner only: redo the batch one by one.
            return [event for ticket in tickets for event in self._commit(connection, [ticket])]
        self._checkpoint(connection, CHECKPOINT_PAGES)
        return events

    def _checkpoint(self, connection: Connection, pages: int) -> None:
        """Fold the WAL back once it is long. What it holds is committed already: trouble here is nobody's failure."""
        try:
            size = self._path.with_name(self._path.name + "-wal").stat().st_size
        except OSError:
            return
        if size <= pages * PAGE or time.monotonic() < self._next_checkpoint:
            return
        try:
            truncated = checkpoint(connection)
        except Exception as error:
            log.warning("the checkpoint of %s failed and is tried again: %s", self._path, error)
            truncated = False
        if not truncated:
            self._next_checkpoint = time.monotonic() + CHECKPOINT_PAUSE

    def _finish(self) -> None:
        """Leave one file on disk if nobody else has it open. Under the lock: closing may checkpoint too."""
        try:
            self._lock.acquire(LOCK_SECONDS)
            with self._engine.connect() as connection:
                self._next_checkpoint = 0.0
                self._checkpoint(connection, 0)
        except Exception:
            log.warning("the last checkpoint of %s did not happen; the next process makes it", self._path, exc_info=True)
        finally:
            self._engine.dispose()
            self._lock.close()


class _Batch:
    """The writes of one transaction: gathers inserts, flushes them where order matters."""

    def __init__(self, connection: Connection, inserts: Mapping[Table, Insert]) -> None:
        self._connection = connection
        self._inserts = inserts
        self._gathered: dict[Table, list[Row]] = {table: [] for table in inserts if table is not events_table}
        self._events_made: list[Event] = []

    def run(self, tickets: Sequence[Ticket]) -> list[Event]:
        for ticket in tickets:
            ticket.touched.clear()
            ticket.held = self._apply(ticket)
        self._flush()
        return self._events_made

    def _apply(self, ticket: Ticket) -> bool:
        events_before = len(self._events_made)
        try:
            if _may_fail_halfway(ticket.write):
                self._apply_in_savepoint(ticket)
            else:
                self._steps(ticket)
        except _GuardFailed:
            del self._events_made[events_before:]
            ticket.touched.clear()
            return False
        self._events_made.extend(ticket.write.events)
        return True

    def _apply_in_savepoint(self, ticket: Ticket) -> None:
        self._flush()
        try:
            with self._connection.begin_nested():
                self._steps(ticket)
                self._flush()
        except _GuardFailed:
            for rows in self._gathered.values():  # only its own: the others were flushed before it
                rows.clear()
            raise

    def _steps(self, ticket: Ticket) -> None:
        for step in ticket.write.steps:
            if isinstance(step, Added):
                self._gathered[step.table].append(step.row)
            else:
                self._execute(step, ticket)

    def _execute(self, step: Statement, ticket: Ticket) -> None:
        if step.looks_around or self._gathered.get(getattr(step.sql, "table", events_table)):
            self._flush()
        result = self._connection.execute(step.sql, step.parameters)
        rows = result.all() if result.returns_rows else None
        count = len(rows) if rows is not None else result.rowcount
        if step.guard and (count != step.expect if step.expect is not None else count < 1):
            raise _GuardFailed
        if rows is not None:
            ticket.touched.extend(rows)
            if step.then is not None:
                for added in step.then(rows):
                    self._add(added)

    def _add(self, added: Added) -> None:
        rows = self._gathered.get(added.table)
        if rows is None:
            self._events_made.append(dict(added.row))
        else:
            rows.append(added.row)

    def _flush(self) -> None:
        for table, rows in self._gathered.items():
            if rows:
                self._connection.execute(self._inserts[table], rows)
                rows.clear()


def _may_fail_halfway(write: Write) -> bool:
    """Whether a guard could fail after something was changed: by an earlier step, or by itself with too few rows."""
    guards = [step for step in write.steps if isinstance(step, Statement) and step.guard]
    return len(guards) > 1 or any(step is not write.steps[0] or step.expect is not None for step in guards)
