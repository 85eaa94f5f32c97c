"""The process that runs one query. `db/query/query.py` starts it as a program: it imports no module of Outrider.

Reads a request from standard input, answers on standard output, both JSON. Three layers, each enough for most attacks: a
connection that cannot write, an authoriser that allows only reads, and limits on size, rows, time and memory.
The answer is shaped, bounded and encoded here, so the service parses no more than it is willing to hold.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
import time
from collections.abc import Sequence
from typing import Any

MEMORY = 512 * 1024 * 1024
"""Bytes of address space, where the platform can limit it."""
SCRATCH = 256 * 1024 * 1024
"""Bytes of a temporary file in which SQLite sorts."""
NICENESS = 10
"""A query yields the processor to the service."""

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "randomblob", "zeroblob"}
_SECRET = {("approvals", "seal")}
"""Columns that models must not read, by table."""
_LIMITS = (
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 10_000),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
    (sqlite3.SQLITE_LIMIT_LENGTH, 16 * 1024 * 1024),  # of one value: a stored one may be cut by `substr`
)


def confine() -> None:
    """Limit this process to the resources of one query."""
    try:
        import resource

        os.nice(NICENESS)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (SCRATCH, SCRATCH))
    except (ImportError, OSError, ValueError, AttributeError):
        return  # SQLite's own limits on the size of a value stay


def authorise(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Allow reads and nothing else."""
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_READ and (first, second) in _SECRET:
        return sqlite3.SQLITE_IGNORE  # it reads as NULL
    return sqlite3.SQLITE_OK


def plain(value: Any) -> Any:
    """A value as JSON can hold it: bytes and infinities are written as SQLite's shell writes them."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return "Inf" if value > 0 else "-Inf"
    return value


def distinct(columns: Sequence[str]) -> list[str]:
    """A unique name for each column: a repeated one gets a number, `n`, `n_2`. Linear for any names."""
    given, used, last = frozenset(columns), set[str](), dict[str, int]()
    names = []
    for column in columns:
        name = column
        while name in used or (name != column and name in given):
            last[column] = last.get(column, 1) + 1
            name = f"{column}_{last[column]}"
        used.add(name)
        names.append(name)
    return names


def read(request: dict[str, Any]) -> bytes:
    """Run the query of a request; the encoded answer has at most `bytes` bytes."""
    connection = sqlite3.connect(request["uri"], uri=True, isolation_level=None)
    connection.text_factory = lambda text: text.decode(errors="replace")
    connection.execute("PRAGMA query_only=1")
    # Declared on first use, in a way the authoriser would take for a write.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
    for limit, value in _LIMITS:
        connection.setlimit(limit, value)
    give_up = time.monotonic() + request["seconds"]
    connection.set_progress_handler(lambda: time.monotonic() > give_up, 10_000)
    connection.set_authorizer(authorise)
    if request["sql"] is None:
        return encoded({"relations": relations(connection)})
    cursor = connection.execute(request["sql"])
    if cursor.description is None:
        return encoded({"error": "no statement"})
    return table(cursor, request)


def table(cursor: sqlite3.Cursor, request: dict[str, Any]) -> bytes:
    """The rows that fit, each a list or an object; `truncated`: there are more."""
    columns = [column[0] for column in cursor.description]
    names = distinct(columns)
    head = encoded({"columns": columns, "names": names})
    rows: list[bytes] = []
    truncated, size = False, len(head)
    for row in cursor:
        values = [plain(value) for value in row]
        line = encoded(dict(zip(names, values, strict=True)) if request["objects"] else values)
        size += len(line) + 1
        if size > request["bytes"] and not rows:
            return encoded({"error": f"too large: one row has more than {request['bytes']:,} bytes"})
        if size > request["bytes"] or len(rows) == request["rows"]:
            truncated = True
            break
        rows.append(line)
    return b'%b,"rows":[%b],"truncated":%b}' % (head[:-1], b",".join(rows), b"true" if truncated else b"false")


def encoded(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def relations(connection: sqlite3.Connection) -> list[list[Any]]:
    """The tables and views with their columns, by name; without full-text indexes."""
    named = (
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'facts_text%' ORDER BY 1, 2"
    )
    found = []
    for kind, name in connection.execute(named).fetchall():
        quoted = '"' + name.replace('"', '""') + '"'
        columns = connection.execute(f"SELECT * FROM {quoted} LIMIT 0").description  # noqa: S608 - quoted, from the schema
        found.append([kind, name, [column[0] for column in columns]])
    return found


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    confine()
    try:
        answer = read(request)
    except MemoryError:
        answer = encoded({"error": "out of memory"})
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        answer = encoded({"error": str(error).encode(errors="replace").decode() or "refused"})
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main()
