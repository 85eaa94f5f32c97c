"""Connections: the one writing connection of a process and read-only ones, with their pragmas.

SQLite up to 3.51.2 can corrupt a WAL file when two connections write or checkpoint at the same instant. So every process
writes through one connection, commits and checkpoints only under the commit lock, and its readers can do neither. Where
a wheel exists, a library with the fix is used.

All connections of a process use the same library. Its locks belong to the process: two copies of SQLite in one process do
not see each other's, so a checkpoint by one would empty the WAL under a reader of the other.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import aiosqlite
from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_dbapi
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool

from db.errors import DatabaseUnavailable, NoDatabase
from db.store.location import can_create_beside, read_only_uri, state_at_rest

BUSY_MILLISECONDS = 2_000
"""How long SQLite itself waits for a writer that does not know our lock (a shell with the file open)."""

STATEMENTS = 1_000
"""Prepared statements that a connection keeps: more than Outrider has. A full cache, for example of the statements of
migrations, gives up the newest: two statements in turn would be prepared each time."""


def sqlite_library() -> ModuleType:
    """The SQLite module of this process: the bundled, fixed one where a wheel exists, else Python's own."""
    try:
        import pysqlite3
    except ImportError:
        return sqlite3
    library: ModuleType = pysqlite3
    return library


def _refuse_a_stranger(connection: Any, path: Path) -> None:
    """Refuse another program's database before the first change."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "schema_migrations" not in tables:
        raise DatabaseUnavailable(
            f"the file `{path}` is a database of another program", "name another one with `--db`; it was not touched"
        )


def _prepare_for_writing(connection: Any) -> None:
    for pragma in (
        f"busy_timeout={BUSY_MILLISECONDS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "wal_autocheckpoint=0",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def open_writer(path: Path) -> Engine:
    """The engine behind a process's one writing connection. Call it under the commit lock: it may change the journal."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        module=sqlite_library(),
        poolclass=StaticPool,
        connect_args={"check_same_thread": False, "cached_statements": STATEMENTS},
    )
    event.listen(engine, "connect", lambda connection, _record: _refuse_a_stranger(connection, path))
    event.listen(engine, "connect", lambda connection, _record: _prepare_for_writing(connection))
    # The driver's own transaction handling does not cover savepoints, so it is switched off.
    event.listen(engine, "connect", lambda connection, _record: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def checkpoint(connection: Connection) -> bool:
    """Checkpoint and empty the WAL; False when a reader blocked it. Call it under the commit lock.

    It never waits: a long read must not stop all writers. It uses the driver's connection, because SQLAlchemy would open
    a transaction first, and none may be open.
    """
    driver: Any = connection.connection.driver_connection
    driver.execute("PRAGMA busy_timeout=0").close()
    try:
        busy = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        driver.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}").close()
    return not busy


def touch(connection: Connection) -> None:
    """Change an unused number of the file: the smallest possible write. In a transaction."""
    number = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    connection.exec_driver_sql(f"PRAGMA user_version = {(number + 1) % 2**31}")


def data_version(connection: Connection) -> int | None:
    """SQLite's count of commits by other connections; None while it cannot be read."""
    driver: Any = connection.connection.driver_connection
    try:
        return int(driver.execute("PRAGMA data_version").fetchone()[0])
    except sqlite_library().Error:
        return None


def connect_read_only(path: Path) -> aiosqlite.Connection:
    """A connection that can neither write nor checkpoint; await it to open it. Its thread never keeps the process alive."""

    def connect() -> sqlite3.Connection:
        connection: sqlite3.Connection = sqlite_library().connect(
            read_only_uri(path), uri=True, cached_statements=STATEMENTS
        )
        for pragma in (f"busy_timeout={BUSY_MILLISECONDS}", "query_only=1", "wal_autocheckpoint=0"):
            connection.execute(f"PRAGMA {pragma}").close()
        return connection

    connection = aiosqlite.Connection(connect, iter_chunk_size=64)
    connection._thread.daemon = True
    return connection


def _async_driver() -> AsyncAdapt_aiosqlite_dbapi:
    """SQLAlchemy's adapter for aiosqlite, with the errors of the library in use."""
    library = sqlite_library()
    driver = AsyncAdapt_aiosqlite_dbapi(aiosqlite, library)
    for name in ("Error", "DatabaseError", "IntegrityError", "NotSupportedError", "OperationalError", "ProgrammingError"):
        setattr(driver, name, getattr(library, name))
    return driver


def open_reader(path: Path) -> AsyncEngine:
    """Async reads through aiosqlite; a few connections, none of which can write."""
    if not path.exists():
        raise NoDatabase(path)
    reader = create_async_engine(
        URL.create("sqlite+aiosqlite", database=str(path)),
        module=_async_driver(),
        pool_size=4,
        max_overflow=4,
        connect_args={"async_creator_fn": lambda *_, **__: connect_read_only(path)},
    )
    if not can_create_beside(path):
        _reopen_after_rest(reader, path)
    return reader


def _reopen_after_rest(reader: AsyncEngine, path: Path) -> None:
    """Discard connections that read the file alone, once a process has opened it."""

    def note(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info["at_rest"] = state_at_rest(path)

    def check(_connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        if record.info["at_rest"] is not None and record.info["at_rest"] != state_at_rest(path):
            raise DisconnectionError  # the pool opens another one instead

    event.listen(reader.sync_engine, "connect", note)
    event.listen(reader.sync_engine, "checkout", check)


def follow(reader: AsyncEngine, openings: Callable[[], int]) -> None:
    """Discard connections older than the writer's: their files may be deleted, with the log."""

    def note(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info["opening"] = openings()

    def check(_connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        if record.info["opening"] != openings():
            raise DisconnectionError  # the pool opens another one instead

    event.listen(reader.sync_engine, "connect", note)
    event.listen(reader.sync_engine, "checkout", check)
