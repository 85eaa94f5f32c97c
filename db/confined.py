"""The process a query of somebody else runs in. Started by `db/query.py` as a program: it imports nothing of ours.

Reads an order from standard input, answers on standard output, both JSON. Three layers, each enough for most attacks: a
connection that cannot write, an authoriser that lets only reads through, and limits on size, rows, time and memory.
"""

from __future__ import annotations

import json
import math
import sqlite3
import sys
import time
from typing import Any

MEMORY = 512 * 1024 * 1024
"""Bytes of address space, where the platform can limit it."""

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "randomblob", "zeroblob"}
_LIMITS = (
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 10_000),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)


def confine() -> None:
    """Give this process no more memory than a query may need."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, OSError, ValueError):
        return  # SQLite's own limits on the size of a value stay


def authorise(action: int, _first: str | None, second: str | None, *_: object) -> int:
    """Let reads through and nothing else."""
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def plain(value: Any) -> Any:
    """A value as JSON can hold it: bytes and infinities are written as SQLite's shell writes them."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float) and not math.isfinite(value):
        return "Inf" if value > 0 else "-Inf"
    return value


def read(order: dict[str, Any]) -> dict[str, Any]:
    """Run the query of an order."""
    connection = sqlite3.connect(order["uri"], uri=True, isolation_level=None)
    connection.text_factory = lambda text: text.decode(errors="replace")
    connection.execute("PRAGMA query_only=1")
    # Declared on first use, in a way the authoriser would take for a write.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
    for limit, value in _LIMITS:
        connection.setlimit(limit, value)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, order["bytes"])
    give_up = time.monotonic() + order["seconds"]
    connection.set_progress_handler(lambda: time.monotonic() > give_up, 10_000)
    connection.set_authorizer(authorise)
    if order["sql"] is None:
        return {"relations": relations(connection)}
    cursor = connection.execute(order["sql"])
    if cursor.description is None:
        return {"error": "no statement"}
    rows: list[list[Any]] = []
    answer: dict[str, Any] = {"columns": [column[0] for column in cursor.description], "rows": rows, "truncated": False}
    size = 0
    for row in cursor:
        size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if len(rows) == order["rows"] or size > order["bytes"]:
            answer["truncated"] = True
            break
        rows.append([plain(value) for value in row])
    return answer


def relations(connection: sqlite3.Connection) -> list[list[Any]]:
    """The tables and views with their columns, in the order of their names; an index of words is none."""
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
    """Answer one order."""
    order = json.load(sys.stdin)
    confine()
    try:
        answer = read(order)
    except MemoryError:
        answer = {"error": "out of memory"}
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        answer = {"error": str(error) or "refused"}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
