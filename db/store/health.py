"""The health of a database file, checked without changing anything: for `doctor`.

Owns: the checks, and which SQLite library is safe. Must not know: how the report looks.
Invariant: a missing database is not created, and an existing one is neither written nor locked.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from db.errors import DatabaseUnavailable, SchemaTooNew, StoreError
from db.store.engine import sqlite_library
from db.store.location import read_only_uri
from db.store.migrate import known_migrations
from db.store.outage import unreadable

MENDED = (3, 51, 3)
"""The first SQLite in which a checkpoint cannot damage a WAL file that another connection writes to."""

PATIENCE = 3.0
"""Seconds for the check of the whole file; a file that takes longer is not reported as sound."""


@dataclass(frozen=True, slots=True)
class Library:
    """The SQLite library this process uses."""

    version: str
    module: str
    mended: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A usable database, and its content if it exists."""

    exists: bool
    schema: int = 0
    newest: int = 0
    executions: int = 0
    checked_whole: bool = False


def library() -> Library:
    """Which SQLite is in use."""
    module = sqlite_library()
    return Library(module.sqlite_version, module.__name__, module.sqlite_version_info >= MENDED)


def examine(path: Path) -> Condition:
    """Check a database; raises StoreError with the first fault."""
    _writable(path)
    if not path.exists():
        return Condition(exists=False)
    try:
        return _look(path)
    except sqlite_library().Error as error:
        raise unreadable(path, str(error)) from error


def _writable(path: Path) -> None:
    """Refuse a path that cannot be written; for a missing folder the nearest existing one is tested."""
    folder = next((each for each in path.parents if each.exists()), path.parent)
    for place in (folder, *(each for each in (path, path.with_name(path.name + "-wal")) if each.exists())):
        if not os.access(place, os.W_OK) or (place is folder and not folder.is_dir()):
            raise DatabaseUnavailable(
                f"`{place}` cannot be written", "make it writable, or name another database with `--db`"
            )


def _look(path: Path) -> Condition:
    connection: Connection = sqlite_library().connect(read_only_uri(path), uri=True)
    try:
        for pragma in ("query_only=1", "wal_autocheckpoint=0"):
            connection.execute(f"PRAGMA {pragma}").close()
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations'").fetchone() is None:
            raise _stranger(path)
        schema = int(connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()[0])
        newest = known_migrations("sqlite")[-1].version
        if schema > newest:
            raise SchemaTooNew(str(path), schema, newest)
        sound = _sound(connection, path)
        executions = int(connection.execute("SELECT count(*) FROM executions").fetchone()[0])
        return Condition(True, schema, newest, executions, sound)
    finally:
        connection.close()


def _stranger(path: Path) -> StoreError:
    return DatabaseUnavailable(f"the file `{path}` is a database of another program", "name another one with `--db`")


def _sound(connection: Connection, path: Path) -> bool:
    """Whether the whole file was checked in time; raises when it is damaged."""
    give_up = time.monotonic() + PATIENCE
    connection.set_progress_handler(lambda: time.monotonic() > give_up, 10_000)
    try:
        found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    except sqlite_library().OperationalError as error:
        if "interrupted" not in str(error):
            raise
        return False
    finally:
        connection.set_progress_handler(None, 0)
    if found != ["ok"]:
        hint = "restore a copy, or name another database with `--db`"
        raise DatabaseUnavailable(f"the database `{path}` is damaged: {'; '.join(found)}", hint)
    return True
