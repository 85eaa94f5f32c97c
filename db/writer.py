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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from sqlalchemy import Connection, Engine, func, select

from db.batch import Batch
from db.engine import checkpoint, data_version, open_writer
from db.errors import DatabaseUnavailable, StoreError, WriterClosed
from db.latch import Latch
from db.lock import FileLock
from db.migrate import migrate
from db.prepared import Prepared
from db.tables import events as events_table
from db.trouble import told, unavailable
from db.unit import Event, Ticket, Write

log = logging.getLogger("outrider.writer")

BATCH = 32
"""Writes per commit while the disk is quick: enough to make the fsync cheap, and those at the head of a crowd go on while
the rest of it is written."""
LARGE_BATCH = 256
SLOW_SECONDS = 0.02
"""After a commit that took the disk so long, as many as wait share the next one."""
LOCK_SECONDS = 30.0
PAGE = 4096
CHECKPOINT_PAGES = 2_000
"""Pages in the WAL before it is folded back into the database: 8 MB."""
CHECKPOINT_PAUSE = 1.0
"""Seconds until the next try when a reader was in the way: it must not cost every commit an attempt."""


@dataclass(slots=True)
class _Look:
    """A question for SQLite's data version, answered between two commits."""

    done: Latch = field(default_factory=Latch)
    version: int | None = None


class Writer:
    """Group commit for one database. Use as an async context manager."""

    def __init__(self, path: Path, publish: Callable[[Sequence[Event]], None]) -> None:
        self._path = path
        self._publish = publish
        """Called in the event loop with the committed events, in order, before the writers wake."""
        self._queue: queue.SimpleQueue[Ticket | _Look | None] = queue.SimpleQueue()
        self._last_seq = select(func.coalesce(func.max(events_table.c.seq), 0))
        self._batch = BATCH
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
        ticket = Ticket(write)
        self._queue.put(ticket)
        return ticket

    async def version(self) -> int | None:
        """A number that changes whenever another process commits, and never by this one; None when it cannot be told."""
        if self._closed:
            raise WriterClosed
        look = _Look()
        self._queue.put(look)
        await look.done.wait()
        return look.version

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
            prepared = Prepared(connection)
            open_ = True
            while open_:
                batch = self._take()
                open_ = batch[-1] is not None
                looks = [each for each in batch if isinstance(each, _Look)]
                tickets = [each for each in batch if isinstance(each, Ticket)]
                events = self._commit_all(connection, prepared, tickets) if tickets else []
                for look in looks:
                    look.version = data_version(connection)
                if waiting := [each for each in batch if each is not None]:
                    anyio.from_thread.run_sync(self._wake, waiting, events, token=self._token)
        self._finish()

    def _take(self) -> list[Ticket | _Look | None]:
        batch = [self._queue.get()]
        while len(batch) < self._batch and batch[-1] is not None:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _wake(self, waiting: Sequence[Ticket | _Look], events: list[Event]) -> None:
        try:
            if events:
                self._publish(events)
        except Exception:
            log.exception("%d events were committed but not published", len(events))
        for each in waiting:
            each.done.set()

    def _commit_all(self, connection: Connection, prepared: Prepared, tickets: list[Ticket]) -> list[Event]:
        try:
            self._lock.acquire(LOCK_SECONDS)
            try:
                return self._commit(connection, prepared, tickets)
            finally:
                self._lock.release()
        except Exception as error:
            log.exception("a batch of %d writes failed", len(tickets))
            for ticket in tickets:
                ticket.fail(told(self._path, error))
            return []

    def _commit(self, connection: Connection, prepared: Prepared, tickets: list[Ticket]) -> list[Event]:
        try:
            connection.begin()
            events = Batch(connection, prepared).run(tickets)
            if events:
                last: int = connection.execute(self._last_seq).scalar_one()
                for number, event in enumerate(events, last + 1):
                    event["seq"] = number
                prepared.insert(events_table, events)
            began = time.monotonic()
            connection.commit()
            self._batch = LARGE_BATCH if time.monotonic() - began > SLOW_SECONDS else BATCH
        except Exception as error:
            connection.rollback()
            trouble = told(self._path, error)
            if len(tickets) == 1 or isinstance(trouble, DatabaseUnavailable):
                log.error("%d writes failed: %s", len(tickets), trouble)
                for ticket in tickets:
                    ticket.fail(told(self._path, error))
                return []
            # One bad row must fail its owner only: redo the batch one by one.
            return [event for ticket in tickets for event in self._commit(connection, prepared, [ticket])]
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
