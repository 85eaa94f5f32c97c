"""The committer: the writing connection of one database, its commit lock, the numbers of its events and its log file.

It alone commits and checkpoints, always under the lock, in one thread. It knows no table but that of events, no queue and
no event loop. Invariant: when `commit` raises, nothing of the batch is applied, and the same batch may be retried.

A program that deletes or replaces the log of an open database removes the commits since the last checkpoint. This
connection still has them, so it checkpoints them before it starts a new log. Only a process that has the newest log open
can do that; the other processes wait for it. A deleted database is waited for, a replaced one is opened.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, select

from db.errors import DatabaseUnavailable, StoreError
from db.store import private_files
from db.store.batch import Batch
from db.store.engine import checkpoint, data_version, open_writer, touch
from db.store.lock import NOTE, FileLock
from db.store.migrate import migrate
from db.store.outage import is_full, told, unavailable
from db.store.owners import living
from db.store.prepared import Prepared
from db.store.unit import Event, Ticket
from db.tables import events as events_table
from db.tables import newest_event

log = logging.getLogger("outrider.writer")

OPENING_SECONDS = 30.0
LOCK_SECONDS = 2.0
"""How long one try waits for other processes; a commit takes a few milliseconds."""
PAGE = 4096
CHECKPOINT_PAGES = 2_000
"""Pages in the WAL before a checkpoint: 8 MB."""
CHECKPOINT_PAUSE = 1.0
"""Seconds until the next try when a reader blocked a checkpoint: not every commit should pay for an attempt."""

RESCUE_SECONDS = 15.0
"""How long the other processes leave a lost log to the process that has it open. A living process checks every second, and
may have to wait for a reader."""
RESCUE_PAUSE = 0.05

_LAST_SEQ = select(newest_event())


class _Files(NamedTuple):
    """The files that the paths of the database and its log lead to."""

    database: tuple[int, int] | None
    log: tuple[int, int] | None

    @property
    def note(self) -> str:
        """The log as the lock file names it: a new log that is not named there was made by another program."""
        return f"{NOTE}{self.log[0]}:{self.log[1]}" if self.log is not None else ""


_NONE = _Files(None, None)


class Committer:
    """Commits batches; reconnects when the files are no longer those it opened."""

    def __init__(self, path: Path) -> None:
        self._path, self._log_path = path, path.with_name(path.name + "-wal")
        self._names = str(self._path), str(self._log_path)
        self._journal = str(path.with_name(path.name + "-journal"))
        self._log_size = 0
        """Before the current commit."""
        self._next_checkpoint = 0.0
        self._lock: FileLock
        self._connection: Connection
        self._prepared: Prepared
        self._files = _NONE
        self._awaited = ("", 0.0)
        """The log that another process has to checkpoint, and until when this one waits for it."""
        self.openings = 0
        """How often the connection was opened: readers must follow it to the same files."""

    def open(self) -> None:
        """Open and migrate; raises StoreError."""
        private_files.prepare(self._path)
        self._lock = FileLock(self._path.with_name(self._path.name + "-lock"))
        self._lock.acquire(OPENING_SECONDS)
        try:
            self._await_rescue()
            self._connect()
        except BaseException:
            self._lock.close()
            raise
        self._lock.release()

    def commit(self, tickets: Sequence[Ticket]) -> list[Event]:
        """Apply a batch durably and return its events; raises DatabaseUnavailable, or WriteRefused for one bad row.

        Without tickets it still writes something: the caller asks whether a write is possible.
        """
        try:
            with self._under_lock():
                return self._commit(tickets)
        except Exception as error:
            raise told(self._path, error) from error

    def version(self) -> int | None:
        """SQLite's count of commits by others."""
        return data_version(self._connection)

    @property
    def displaced(self) -> bool:
        """Whether the files were deleted or replaced under the connection."""
        return self._look() != self._files or _status(self._journal) is not None

    def close(self) -> None:
        """Close; the last process leaves one file on disk. Under the lock: closing may checkpoint too."""
        try:
            with self._under_lock():
                self._next_checkpoint = 0.0
                self._checkpoint(0)
                _close(self._connection)
        except Exception as error:
            log.warning("the last checkpoint of %s did not happen; the next process makes it: %s", self._path, error)
            _close(self._connection)
        finally:
            self._lock.close()

    # -- the connection ------------------------------------------------------------------------------------------------

    @contextmanager
    def _under_lock(self) -> Iterator[None]:
        self._lock.acquire(LOCK_SECONDS)
        try:
            self._put_journal_aside()
            found = self._look()
            if found != self._files:
                self._follow(found)
            elif not self._lock.note:  # the lock file was replaced and is still empty
                self._lock.write(found.note)
            yield
        finally:
            self._lock.release()

    def _follow(self, found: _Files) -> None:
        """Open the files that are there now, without losing a commit."""
        if found.database is None:
            raise DatabaseUnavailable(
                f"the database `{self._path}` was deleted while it was in use", "put the file back; it is waited for"
            )
        if self._is_foreign(found):
            self._rescue("deleted" if found.log is None else "replaced")
            found = found._replace(log=None)
        log.warning("reopening the files of %s", self._path)
        before = self._connection
        self._connect(found if found.database == self._files.database else None)
        _close(before)

    def _is_foreign(self, found: _Files) -> bool:
        """Whether another program deleted or replaced the log. A process that already noticed has noted its new log."""
        if found.database != self._files.database or self._files.log in (None, found.log):
            return False
        return found.log is None or self._lock.note not in ("", found.note)

    def _rescue(self, done: str) -> None:
        """Checkpoint the log that this connection still has, and move a foreign log aside.

        SQLite would apply any log it finds. A connection with an older log has nothing to add: it must not start a new log
        before the process that has the newest one has checkpointed it.
        """
        if self._lock.note in ("", self._files.note):
            try:
                rescued = checkpoint(self._connection)
            except Exception as error:
                raise unavailable(self._path, error) from error
            if not rescued:
                raise DatabaseUnavailable(
                    f"the log `{self._log_path}` was {done} while it was in use",
                    "keep this process running: it restores the database once no process reads it, and nothing is lost",
                )
        elif self._is_left_to_another():
            raise DatabaseUnavailable(
                f"the log `{self._log_path}` was {done} while it was in use",
                "keep the process that has it open running: it restores the database within seconds, and nothing is lost",
            )
        else:
            _close(self._connection)  # SQLite keeps its index of the lost log while a connection has it open
            log.error("the log of %s was %s, and the process that had it open has ended", self._path, done)
        with suppress(FileNotFoundError):
            self._log_path.replace(self._log_path.with_name(f"{self._path.name}-foreign"))
        log.error("the log of %s was %s while it was in use; starting a new one", self._path, done)

    def _is_left_to_another(self) -> bool:
        """Whether the process that has the newest log open still has time to checkpoint it."""
        awaited, until = self._awaited
        if awaited != self._lock.note:
            awaited, until = self._awaited = self._lock.note, time.monotonic() + RESCUE_SECONDS
        return time.monotonic() < until

    def _await_rescue(self) -> None:
        """Before opening a log that no process noted, let the living processes checkpoint theirs. Under the lock."""
        while self._is_unnoted(self._look()) and living(self._path) and self._is_left_to_another():
            self._lock.release()
            time.sleep(RESCUE_PAUSE)
            self._lock.acquire(OPENING_SECONDS)

    def _is_unnoted(self, found: _Files) -> bool:
        return found.database is not None and self._lock.note not in ("", found.note)

    def _put_journal_aside(self) -> None:
        """Move a foreign rollback journal aside: an open database has a log instead, and SQLite would apply the journal."""
        if _status(self._journal) is not None and self._lock.note:
            with suppress(OSError):
                Path(self._journal).replace(self._path.with_name(f"{self._path.name}-foreign"))
                log.error("the journal `%s` was not made by Outrider; moved aside", self._journal)

    def _connect(self, expected: _Files | None = None) -> None:
        """Under the lock. With `expected` it accepts no other files: a program may replace the log at this moment."""
        self._put_journal_aside()
        try:
            private_files.create(self._path)
            if expected is not None and expected.log is None:
                private_files.create_log(self._path, self._log_path)
                expected = self._look()
        except OSError as error:
            raise unavailable(self._path, error) from error
        engine = open_writer(self._path)
        try:
            connection = engine.connect()
            migrate(connection, str(self._path))
            connection.rollback()  # reading the schema has begun a transaction
            opened = self._look()
            if expected not in (None, opened):
                raise DatabaseUnavailable(
                    f"the log `{self._log_path}` was replaced while it was opened", "it is opened again in a moment"
                )
        except BaseException as error:
            engine.dispose()
            if isinstance(error, StoreError) or not isinstance(error, Exception):
                raise
            raise unavailable(self._path, error) from error
        self._connection, self._prepared = connection, Prepared(connection)
        self._files = opened
        self._lock.write(self._files.note)
        self.openings += 1

    def _look(self) -> _Files:
        database, written = map(_status, self._names)
        self._log_size = written.st_size if written is not None else 0
        return _Files(_identity(database), _identity(written))

    # -- commit and checkpoint -----------------------------------------------------------------------------------------

    def _commit(self, tickets: Sequence[Ticket]) -> list[Event]:
        connection = self._connection
        try:
            connection.begin()
            events = Batch(connection, self._prepared).run(tickets)
            if events:
                self._number(events)
            if not tickets:
                touch(connection)
            connection.commit()
        except Exception as error:
            self._roll_back()
            if is_full(error):
                self._make_room()
            raise
        self._checkpoint(CHECKPOINT_PAGES)
        return events

    def _make_room(self) -> None:
        """Checkpoint a log of any length: on a full disk that may make room for the next try."""
        try:
            checkpoint(self._connection)
        except Exception as error:
            log.debug("the log of %s still takes disk space: %s", self._path, error)

    def _number(self, events: list[Event]) -> None:
        for number, event in enumerate(events, self._prepared.number(_LAST_SEQ) + 1):
            event["seq"] = number
        self._prepared.insert(events_table, events)

    def _roll_back(self) -> None:
        try:
            self._connection.rollback()
        except Exception as error:
            log.warning("%s could not be rolled back: %s", self._path, error)
            self._files = _NONE  # the state of this connection is unknown: the next try opens another

    def _checkpoint(self, pages: int) -> None:
        """Checkpoint a long WAL. Its content is already committed, so an error here fails no write."""
        if self._log_size <= pages * PAGE or time.monotonic() < self._next_checkpoint:
            return
        try:
            truncated = checkpoint(self._connection)
        except Exception as error:
            log.warning("the checkpoint of %s failed and will be retried: %s", self._path, error)
            truncated = False
        if not truncated:
            self._next_checkpoint = time.monotonic() + CHECKPOINT_PAUSE


def _status(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)  # noqa: PTH116 - before every commit, and a path would cost more than the call
    except OSError:
        return None


def _identity(found: os.stat_result | None) -> tuple[int, int] | None:
    return (found.st_dev, found.st_ino) if found is not None else None


def _close(connection: Connection) -> None:
    try:
        connection.close()
        connection.engine.dispose()
    except Exception as error:
        log.warning("a connection did not close: %s", error)
