"""`outrider message`: say something to an execution at work, in whichever process; its model reads it at its next step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, person

if TYPE_CHECKING:
    from db.rows.reads import Record

LONGEST = 20_000
"""Characters of a message: as for MCP clients."""


def message(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="An execution: its id, short or whole.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What it should know or do; `-` reads standard input.")],
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Send a message to a running execution; works from any process.

    For example: outrider message 0123 "the deploy was at noon, look there first"
    """
    import anyio

    from server.cli.terminal.output import note, put_json

    said = (sys.stdin.read() if text == "-" else text).strip()
    if not said:
        raise CommandError("the message is empty", "say what it should know or do from now on")
    if len(said) > LONGEST:
        raise CommandError(f"the message is longer than {LONGEST:,} characters", "shorten it, or say where the text is")
    row, gone = anyio.run(_send, chosen_database(db, config), identifier, said)
    if as_json:
        told = {name: row[name] for name in ("agent", "status")}
        put_json({"execution_id": row["id"], **told, "message": "accepted", "owner_gone": gone})
    else:
        note(_when(row, gone=gone))
    return Exit.DONE


async def _send(database: Path, identifier: str, text: str) -> tuple[Record, bool]:
    from runner.core.steering import steering_from_outside
    from runner.core.views import is_gone
    from server.cli.store import writing

    async with writing(database) as (opened, recorder):
        execution = await opened.reads.resolve(identifier)
        sent = await steering_from_outside(opened, recorder).send(execution, text, person())
        row = await opened.reads.execution(execution)
        assert row is not None
        if not sent:
            raise _undelivered(row)
        return row, is_gone(row, database)


def _when(row: Mapping[str, Any], *, gone: bool) -> str:
    """When it will be read."""
    from server.cli.terminal.output import one_line

    who = one_line(row["agent"])
    if gone:
        return f"the process of {who} is gone; it reads the message once it is resumed: `outrider resume {row['id']}`"
    when = "at its next step" if row["status"] == "running" else "when it begins"
    return f"{who} reads it {when}; `outrider show {row['id']} --transcript` tells when it has"


def _undelivered(row: Mapping[str, Any]) -> CommandError:
    """Why the message would not be read."""
    who = f"`{row['id']}` ({row['agent']})"
    if row["finished_at"] is not None:
        return CommandError(
            f"execution {who} has ended, so the message would not be read",
            f'`outrider resume {row["id"]} "…"` continues it with what you have to say',
            Exit.FAILED,
        )
    hint = f"`outrider show {row['id']}` tells when it has ended"
    return CommandError(f"execution {who} is being cancelled, so the message would not be read", hint, Exit.FAILED)
