"""Read-only SQL for people and models. SQLite itself refuses everything else: the text of a query is never inspected.

A query runs in a process of its own (`db/query/query_process.py`). Its use of memory, time and SQLite's locks stays there,
and that process can be killed. This file owns the bounds, the process and the texts of refusals; `db/query/gate.py`
limits how many run at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.errors import DatabaseUnavailable, NoDatabase, QueryRefused
from db.ids import ALPHABET, SHORT
from db.store.location import read_only_uri, state_at_rest

SECONDS, ROWS, BYTES = 5.0, 10_000, 16 * 1024 * 1024
"""Bounds of one query: its time, its rows, and the size of its encoded result."""


GRACE = 2.0
"""Seconds on top for the process to start and to answer, before it is killed."""


RECENT = 30
"""The most executions that `recent` returns."""


_CONFINED = Path(__file__).with_name("query_process.py")


_ONE_SELECT = "write a single `select`; tables and views are listed by `outrider sql`"


_SMALLER = "make it smaller, for example with `substr(column, 1, 200)` or fewer terms"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, as JSON values. `truncated`: there were more rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False
    names: tuple[str, ...] = ()
    """Unique names of the columns: a repeated name gets a number, `n`, `n_2`."""

    def as_objects(self) -> list[dict[str, Any]]:
        """One mapping per row."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view, as a query can use it."""

    name: str
    kind: str
    columns: tuple[str, ...]


def query(path: Path, sql: str, *, seconds: float = SECONDS, rows: int = ROWS) -> QueryResult:
    """Run one read; raises QueryRefused with the reason for anything else. Blocking: call it from a thread."""
    said = _ask(path, sql, seconds=seconds, rows=rows)
    return QueryResult(
        tuple(said["columns"]), [tuple(row) for row in said["rows"]], said["truncated"], tuple(said["names"])
    )


def relations(path: Path) -> list[Relation]:
    """The tables, then the views."""
    said = _ask(path, None)
    return [Relation(name, kind, tuple(columns)) for kind, name, columns in said["relations"]]


@dataclass(frozen=True, slots=True)
class Glimpse:
    """A short view of an execution, for completions."""

    id: str
    agent: str
    status: str
    task: str


FEW = 2
"""Characters of a short id of which few executions have the same: they are searched by their ends, others by their time."""


def recent(path: Path, prefix: str = "", *, only_open: bool = False) -> list[Glimpse]:
    """Executions whose id, whole or short, begins with `prefix`: top-level ones first, then newest first."""
    if not set(prefix) <= set(ALPHABET):
        return []
    return [Glimpse(*row) for row in query(path, recent_query(prefix, only_open=only_open), rows=RECENT).rows]


def recent_query(prefix: str, *, only_open: bool = False) -> str:
    """The query behind `recent`; the prefix has only letters of ids.

    `+` keeps the planner from an index of ids, where the order or another condition leaves fewer rows to look at.
    """
    begins, short = f"id >= '{prefix}' AND id < '{prefix}~'", f"substr(id, -{SHORT})"
    ends = f"{short} >= '{prefix}' AND {short} < '{prefix}~'"
    either = f"({begins.replace('id', '+id')} OR {ends.replace('(id', '(+id')})"
    newest = f"ORDER BY id DESC LIMIT {RECENT + 1}"
    if only_open:
        found = [f"finished_at IS NULL AND {either}"]
    elif len(prefix) < FEW:
        found = [
            f"{which} AND {either} {newest}"
            for which in ("parent_execution_id IS NULL", "+parent_execution_id IS NOT NULL")
        ]
    else:
        found = [ends, f"{begins} AND parent_execution_id IS NULL {newest}", f"{begins} {newest}"]
    columns = "parent_execution_id, id, agent, status, coalesce(substr(task, 1, 100), '') AS task"
    union = " UNION ".join(f"SELECT * FROM (SELECT {columns} FROM executions WHERE {each})" for each in found)  # noqa: S608
    return f"SELECT id, agent, status, task FROM ({union}) ORDER BY parent_execution_id IS NOT NULL, id DESC"  # noqa: S608


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """How the process of a query is started, and its input."""

    path: Path
    seconds: float
    words: bytes

    @property
    def command(self) -> list[str]:
        """The command; `-I -S` imports nothing of the environment, so it starts in a few hundredths of a second."""
        return [sys.executable, "-I", "-S", str(_CONFINED)]

    @property
    def timeout(self) -> float:
        """Seconds until the process is killed."""
        return self.seconds + GRACE

    def answer(self, code: int | None, output: bytes) -> dict[str, Any]:
        """Parse the output; raises QueryRefused or DatabaseUnavailable. Without a code the process was killed."""
        if code is None:
            raise _refusal("interrupted", self.path, self.seconds)
        if code != 0:
            raise _refusal("out of memory", self.path, self.seconds)
        said: dict[str, Any] = json.loads(output)
        if (trouble := said.get("error")) is not None:
            raise _refusal(trouble, self.path, self.seconds)
        return said


def query_request(
    path: Path, sql: str | None, *, seconds: float = SECONDS, rows: int = ROWS, objects_within: int | None = None
) -> QueryRequest:
    """A request to an existing database. `objects_within`: rows are objects, in an answer of at most so many bytes."""
    if not path.exists():
        raise NoDatabase(path)
    bounds = {"seconds": seconds, "rows": rows, "bytes": objects_within or BYTES, "objects": objects_within is not None}
    return QueryRequest(path, seconds, json.dumps({"uri": read_only_uri(path), "sql": sql, **bounds}).encode())


def _ask(path: Path, sql: str | None, *, seconds: float = SECONDS, rows: int = ROWS) -> dict[str, Any]:
    """Ask; once more when a process has opened the file meanwhile that was read alone."""
    while True:
        before = state_at_rest(path)
        try:
            said = _answer(query_request(path, sql, seconds=seconds, rows=rows))
        except (QueryRefused, DatabaseUnavailable):
            if before == state_at_rest(path):
                raise
            continue
        if before is None or before == state_at_rest(path):
            return said


def _answer(request: QueryRequest) -> dict[str, Any]:
    try:
        done = subprocess.run(
            request.command, input=request.words, capture_output=True, timeout=request.timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return request.answer(None, b"")
    return request.answer(done.returncode, done.stdout)


def _refusal(said: str, path: Path, seconds: float) -> QueryRefused | DatabaseUnavailable:
    def has(*words: str) -> bool:
        return any(word in said for word in words)

    if has("interrupted"):
        return QueryRefused(f"the query took longer than {seconds:g} s", "narrow it, for example by `root_execution_id`")
    if has("not authorized", "prohibited", "readonly"):
        return QueryRefused(f"only reads are allowed: {said}", _ONE_SELECT)
    if has("one statement"):
        return QueryRefused("only one statement is allowed", _ONE_SELECT)
    if has("no statement"):
        return QueryRefused("the query is empty", _ONE_SELECT)
    if has("no such table", "no such column"):
        return QueryRefused(said, "`outrider sql` without a query lists the tables, views and their columns")
    if has("too big", "too large", "too many", "too complex", "overflow", "out of memory", "disk is full"):
        return QueryRefused(f"the query asks for too much: {said}", _SMALLER)
    if has("unable to open", "not a database", "malformed", "I/O error"):
        from db.store.outage import unreadable

        return unreadable(path, said)
    return QueryRefused(f"the query failed: {said}", "see `outrider sql --help` for examples")
