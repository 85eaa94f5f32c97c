"""`outrider errors`: recorded errors, their number of occurrences, and the state of their fixes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database

if TYPE_CHECKING:
    from db.rows.reads import Reads

COLUMNS = ("id", "severity", "type", "agent", "times", "last seen", "fix", "message")
FIXES = ("not_addressed", "planned", "in_progress", "fixed")
"""As `db.rows.error_records.FixStatus` has them: a command line that is only parsed loads no database."""
_LIST = "`outrider errors` lists them"


def errors(  # noqa: PLR0913 - the options of a command are its parameters
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="An error, by its id, short or whole; without: list them.")
    ] = "",
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only errors of this type.")] = None,
    only_open: Annotated[bool, typer.Option("--open", help="Without those that are fixed.")] = False,
    fix: Annotated[str | None, typer.Option("--fix", metavar="STATUS", help=f"Its state: {', '.join(FIXES)}.")] = None,
    plan: Annotated[str | None, typer.Option("--plan", metavar="REF", help="With --fix: the plan to fix it.")] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="REF", help="With --fix: the task to fix it.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """List errors, each once with its number of occurrences; show one, or record its fix."""
    import anyio

    if fix is None and (plan or task):
        raise CommandError("`--plan` and `--task` say how an error is fixed", "add `--fix planned` or another state")
    if fix is not None and fix not in FIXES:
        raise CommandError(f"`{fix}` is not a state of a fix", f"say one of {', '.join(FIXES)}")
    if not identifier and fix is not None:
        raise CommandError("no error was given", f"{_LIST}, with their ids")
    if identifier and (kind or only_open):
        raise CommandError("`--type` and `--open` choose from the list", "omit them to show one error")
    database = chosen_database(db, config)
    if not identifier:
        anyio.run(_list, database, kind, only_open, as_json)
    elif fix is None:
        anyio.run(_show, database, identifier, as_json)
    else:
        anyio.run(_fix, database, identifier, (fix, plan, task), as_json)
    return 0


async def _list(database: Path, kind: str | None, only_open: bool, as_json: bool) -> None:
    from runner.error_log import as_object
    from server.cli.show.table import aligned
    from server.cli.store import reading
    from server.cli.terminal.output import note, put, put_json

    async with reading(database) as reads:
        found = await reads.error_records.listed(kind, only_open=only_open)
        updated = await reads.error_records.last_updated()
    if as_json:
        put_json({"_last_updated": updated, "errors": [as_object(row) for row in found]})
    elif found:
        put(aligned(COLUMNS, [_cells(row) for row in found], spare=("fix", "last seen", "severity", "times")))
        note("`outrider errors ID` shows one; `--fix fixed` says that it is done")
    else:
        note("nothing went wrong" if updated is None else "no such error")


async def _show(database: Path, identifier: str, as_json: bool) -> None:
    from runner.error_log import as_object
    from server.cli.store import reading
    from server.cli.terminal.output import put, put_json

    async with reading(database) as reads:
        row = await _meant(reads, identifier)
    put_json(as_object(row)) if as_json else put(_text(row))


async def _fix(database: Path, identifier: str, said: tuple[str, str | None, str | None], as_json: bool) -> None:
    from db.rows.error_records import Fix, FixStatus
    from runner.error_log import as_object
    from runner.record.facts import Addressed
    from server.cli.store import writing
    from server.cli.terminal.output import put, put_json

    status, plan, task = said
    async with writing(database) as (opened, recorder):
        row = await _meant(opened.reads, identifier)
        await recorder.record(Addressed(Fix(row["id"], FixStatus(status), plan, task)), patient=False)
        row = await _meant(opened.reads, row["id"])
    put_json(as_object(row)) if as_json else put(_text(row))


async def _meant(reads: Reads, identifier: str) -> Mapping[str, Any]:
    """The one error an id stands for; raises CommandError."""
    found = await reads.error_records.named(identifier)
    if not found:
        raise CommandError(f"no error `{identifier}`", _LIST, Exit.NOT_FOUND)
    if len(found) > 1:
        raise CommandError(f"{len(found)} errors have the short id `{identifier}`", "give more of the id", Exit.NOT_FOUND)
    return found[0]


def _cells(row: Mapping[str, Any]) -> tuple[Any, ...]:
    from db.ids import SHORT

    agent = json.loads(row["context"]).get("agent")
    seen, count = row["last_seen"][:19].replace("T", " "), row["recurrence_count"]
    return (row["id"][-SHORT:], row["severity"], row["type"], agent, count, seen, row["fix_status"], row["message"])


def _text(row: Mapping[str, Any]) -> str:
    """An error for people."""
    from server.cli.terminal.output import one_line

    fix = ", ".join(one_line(str(each)) for each in (row["fix_status"], row["fix_plan_ref"], row["fix_task_ref"]) if each)
    facts = [
        ("error", row["id"]),
        ("type", f"{row['type']}, {row['severity']}"),
        ("message", one_line(row["message"])),
        ("seen", f"{row['recurrence_count']} times, from {row['first_seen']} to {row['last_seen']}"),
        ("execution", row["execution_id"]),
        ("fix", fix),
        ("related", ", ".join(json.loads(row["related_errors"])) or "none"),
        *((f"  {name}", one_line(json.dumps(value))) for name, value in json.loads(row["context"]).items()),
    ]
    lines = [f"{name:<12} {value}" for name, value in facts]
    return "\n".join([*lines, row["stack_trace"]] if row["stack_trace"] else lines)
