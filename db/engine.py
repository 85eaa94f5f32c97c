"""Connections: the one writing connection of a process and read-only ones, with the pragmas the discipline needs.

SQLite up to 3.51.2 can corrupt a WAL file when two connections write or checkpoint at the same instant. So every process
writes through one connection, commits and checkpoints only under the commit lock, and its readers can do neither. Where
a wheel exists the writer also uses a library in which the bug is mended.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import ModuleType
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import StaticPool

from db.errors import DatabaseUnavailable
from db.location import read_only_uri

BUSY_MILLISECONDS = 5_000
"""How long SQLite itself waits for a writer that does not know our lock (a shell with the file open)."""


def writer_library() -> ModuleType:
    """The SQLite module the writer uses: the bundled, fixed one where a wheel exists, else Python's own."""
    try:
        import pysqlite3
    except ImportError:
        return sqlite3
    library: ModuleType = pysqlite3
    return library


def _pragmas(*statements: str) -> Any:
    def apply(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(f"PRAGMA {statement}")
        cursor.close()

    return apply


def open_writer(path: Path) -> Engine:
    """The engine behind a process's one writing connection. Call it under the commit lock: it may change the journal."""
    engine = create_engine(
        f"sqlite:///{path}", module=writer_library(), poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    event.listen(
        engine,
        "connect",
        _pragmas(
            f"busy_timeout={BUSY_MILLISECONDS}",
            "journal_mode=WAL",
            "synchronous=FULL",
            "wal_autocheckpoint=0",
            "foreign_keys=ON",
        ),
    )
    # The driver's own idea of when a transaction begins does not cover savepoints: it is told to have none.
    event.listen(engine, "connect", lambda connection, _record: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def open_reader(path: Path) -> AsyncEngine:
    """Async reads through aiosqlite; a few connections, none of which can write."""
    if not path.exists():
        raise DatabaseUnavailable(
            f"no database at `{path}`", "run something first (`outrider demo`), or name a database with `--db`"
        )
    engine = create_async_engine(f"sqlite+aiosqlite:///{read_only_uri(path)}&uri=true", pool_size=4, max_overflow=4)
    event.listen(
        engine.sync_engine,
        "connect",
        _pragmas(f"busy_timeout={BUSY_MILLISECONDS}", "query_only=1", "wal_autocheckpoint=0"),
    )
    return engine
