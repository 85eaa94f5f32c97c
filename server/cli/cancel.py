"""`outrider cancel`: ask a tree to stop, from whichever process, and tell what happened to each execution of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import DatabaseOption, JsonOption, chosen_database, person

if TYPE_CHECKING:
    from db.database import Database

PATIENCE = 5.0
"""Seconds the command waits for the processes that run the tree; what takes longer goes on without it."""


def cancel(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="An execution, or the beginning of its id.")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the execution.")
    ] = "cancelled from the shell",
    as_json: JsonOption = False,
    db: DatabaseOption = None,
) -> int:
    """Cancel an execution and everything below it; works from any process."""
    import anyio

    from server.cli.messages import note, put, put_json

    answer, before, after = anyio.run(_cancel, chosen_database(db), identifier, reason)
    left = [row for row in after if row["finished_at"] is None]
    if answer == "requested" and not left:
        answer = "done"
    if as_json:
        executions = [{"id": row["id"], "agent": row["agent"], "status": row["status"]} for row in after]
        put_json({"execution_id": after[0]["id"], "status": after[0]["status"], "cancel": answer, "executions": executions})
        return 0
    for row in after:
        put(_line(row, was_over=row["id"] in before))
    if answer == "already_finished":
        note("it had ended before; nothing was cancelled")
    elif left:
        note(f"{len(left)} still stopping; `outrider show {after[0]['id']}` tells when they have")
    return 0


async def _cancel(database: Path, identifier: str, reason: str) -> tuple[str, set[str], list[Mapping[str, Any]]]:
    from db.endings import CancelWish
    from runner.cancellation import gone_owners, wish_to_cancel
    from server.cli.store import writing

    async with writing(database) as (opened, recorder):
        execution = await opened.reads.resolve(identifier)
        before = {row["id"] for row in await opened.reads.tree(execution) if row["finished_at"] is not None}
        wish = CancelWish(execution, person(), reason, await gone_owners(opened, execution))
        answer = await wish_to_cancel(opened, recorder, wish)
        return answer, before, await _settled(opened, execution)


async def _settled(opened: Database, execution: str) -> list[Mapping[str, Any]]:
    """The tree once nothing in it is open any more, or as it is when patience ends."""
    import anyio

    from db.watch import changes

    with anyio.move_on_after(PATIENCE):
        async for _ in changes(opened.writer):
            if all(row["finished_at"] is not None for row in await opened.reads.tree(execution)):
                break
    return await opened.reads.tree(execution)


def _line(row: Mapping[str, Any], *, was_over: bool) -> str:
    from server.cli.messages import one_line
    from server.shapes import shape

    words = row["status"].replace("_", " ")
    if was_over:
        words += " before"
    elif row["finished_at"] is None:
        words += ", asked to stop"
    indent = "   " * row["level"]
    return f"{indent}{shape(row['status'], row['outcome'])} {one_line(row['agent'])}  {words}"
