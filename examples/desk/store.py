"""The store of one server: a SQLite file of its own, made and filled with the story when it is first used.

Owns the folder (`DESK_HOME`, else the user's folder for state), the connection and transactions. Knows no table. Invariant:
tables and story are there together or not at all, however many processes begin at once.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import platformdirs

from examples.desk.errors import DeskError
from examples.desk.story import story_name

PATIENCE = 5.0
"""Seconds to wait for another process of the same desk."""


def folder() -> Path:
    """Where this desk keeps its things; one folder for each story."""
    home = os.environ.get("DESK_HOME")
    found = (Path(home) if home else platformdirs.user_state_path("outrider") / "desk") / story_name()
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeskError(f"the desk has no place at `{found}`: {error.strerror}", "name another with `DESK_HOME`") from error
    return found


class Store:
    """The tables of one server, and what fills them at first."""

    def __init__(self, name: str, tables: Sequence[str], fill: Callable[[sqlite3.Connection], None]) -> None:
        self._name = name
        self._tables = tables
        self._fill = fill

    @cached_property
    def _connection(self) -> sqlite3.Connection:
        connection = sqlite3.connect(folder() / f"{self._name}.db", timeout=PATIENCE, isolation_level=None)
        connection.row_factory = sqlite3.Row
        with _transaction(connection):
            if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                for table in self._tables:
                    connection.execute(table)
                self._fill(connection)
                connection.execute("PRAGMA user_version = 1")
        return connection

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """What a query finds."""
        return self._connection.execute(query, values).fetchall()

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """All changes made inside take effect together, or none of them."""
        with _transaction(self._connection) as connection:
            yield connection


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        raise DeskError(f"the desk cannot be changed now: {error}", "try again") from error
    try:
        yield connection
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
