"""`outrider sql`: read-only SQL over the tables and views. Imports nothing heavy: a question is answered at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.terminal.options import ConfigOption, DatabaseOption, chosen_database

EXAMPLES = (
    (
        "what ran, and what it cost",
        "select agent, status, subtree_tokens, subtree_cost_usd from execution_tree where depth = 0",
    ),
    ("the slowest executions", "select agent, own_seconds, path from execution_tree order by own_seconds desc limit 10"),
    ("tools that failed", "select * from tool_errors order by errors desc"),
    ("calls with an unknown outcome", "select tool, arguments, error_type from tool_calls where status = 'unknown'"),
)


def sql(
    statement: Annotated[str | None, typer.Argument(metavar="QUERY", help="One select.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="An array of objects on stdout.")] = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Ask the database; without a query, list its tables, views and columns.

    For example: outrider sql "select agent, status from executions"
    """
    from db.query.query import query
    from server.cli.show.table import aligned
    from server.cli.terminal.output import note, put, put_json

    database = chosen_database(db, config)
    if statement is None:
        return _list(database, as_json)
    answer = query(database, statement)
    if as_json:
        put_json(answer.as_objects())
    else:
        put(aligned(answer.columns, answer.rows))
    if answer.truncated:
        note(f"only the first {len(answer.rows):,} rows are shown; narrow the query for the rest")
    return 0


def _list(database: Path, as_json: bool) -> int:
    from db.query.query import relations
    from server.cli.terminal.options import command
    from server.cli.terminal.output import put, put_json

    found = relations(database)
    if as_json:
        put_json([{"name": each.name, "type": each.kind, "columns": each.columns} for each in found])
        return 0
    for each in found:
        put(f"{each.name} ({each.kind})\n    {', '.join(each.columns)}")
    put("\nexamples")
    for what, example in EXAMPLES:
        put(f"    # {what}\n    " + command(f'sql "{example}"'))
    return 0
