"""Read-only SQL for people and models. The database itself refuses everything else: no text of a query is ever inspected.

Three layers, each enough for most attacks: a connection that cannot write, an authoriser that lets only reads through, and
limits on size, rows and time. A refused query changes nothing, on disk or in memory.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.errors import DatabaseUnavailable, QueryRefused
from db.location import read_only_uri

SECONDS, ROWS, BYTES = 5.0, 10_000, 16 * 1024 * 1024
"""Bounds of one query: its time, its rows, and the size of what it returns."""

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "randomblob", "zeroblob"}
_LENGTHS = (
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (sqlite3.SQLITE_LIMIT_LENGTH, BYTES),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 10_000),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query. `truncated` tells that there were more than are shown."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False

    def as_objects(self) -> list[dict[str, Any]]:
        """One mapping per row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def _authorise(action: int, first: str | None, second: str | None, *_: object) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def query(path: Path, sql: str, *, seconds: float = SECONDS, rows: int = ROWS) -> Answer:
    """Run one read; raises QueryRefused with the reason for anything else. Blocking: call it from a thread."""
    if not path.exists():
        raise DatabaseUnavailable(
            f"no database at `{path}`", "run something first (`outrider demo`), or name a database with `--db`"
        )
    connection = sqlite3.connect(read_only_uri(path), uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only=1")
        for limit, value in _LENGTHS:
            connection.setlimit(limit, value)
        give_up = time.monotonic() + seconds
        connection.set_progress_handler(lambda: time.monotonic() > give_up, 10_000)
        connection.set_authorizer(_authorise)
        return _read(connection, sql, rows)
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise _refusal(error, seconds) from error
    finally:
        connection.close()


def _read(connection: sqlite3.Connection, sql: str, most: int) -> Answer:
    cursor = connection.execute(sql)
    if cursor.description is None:
        raise QueryRefused("the query returns nothing", "write a single `select`")
    columns = tuple(column[0] for column in cursor.description)
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if len(rows) == most or size > BYTES:
            return Answer(columns, rows, truncated=True)
        rows.append(row)
    return Answer(columns, rows)


def _refusal(error: Exception, seconds: float) -> QueryRefused:
    said = str(error)
    if "interrupted" in said:
        return QueryRefused(f"the query took longer than {seconds:g} s", "narrow it, for example by `root_execution_id`")
    if "not authorized" in said or "prohibited" in said:
        return QueryRefused(
            f"only reads are allowed: {said}", "write a single `select`; tables and views are listed by `outrider sql`"
        )
    if "one statement" in said:
        return QueryRefused("only one statement is allowed", "write a single `select`")
    if "no such table" in said or "no such column" in said:
        return QueryRefused(said, "`outrider sql` without a query lists the tables, views and their columns")
    return QueryRefused(f"the query failed: {said}", "see `outrider sql --help` for examples")
