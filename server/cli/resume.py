"""`outrider resume`: go on with what a process left open, or continue an execution that has ended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, chosen_settings

if TYPE_CHECKING:
    from pathlib import Path

    from db.rows.reads import Reads
    from registry import Settings
    from runner.service.dispatcher import Dispatcher
    from runner.snapshot import Snapshot


def resume(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="An execution: its id, short or whole.")],
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What a continued execution should know or do now.", show_default=False)
    ] = "",
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Resume or continue an execution: a live tree on stderr, the answer on stdout.

    An interrupted execution is resumed with its whole tree and its own configuration. An ended one is continued by a new
    execution, which starts from its transcript and repeats no finished work.
    """
    import anyio

    from server.app import Blueprint
    from server.cli.live.live_run import LiveRun
    from server.cli.show import report
    from server.cli.show.tree_view import tree_view
    from server.cli.store import reading

    database, settings = chosen_database(db, config), chosen_settings(config)

    async def resolve() -> str:
        async with reading(database) as reads:
            found = await reads.resolve(identifier)
            await _check(reads, database, found, settings)
            return found

    execution = anyio.run(resolve)

    async def go_on(service: Dispatcher) -> Snapshot:
        return await service.resume(execution, text)

    launch = LiveRun(Blueprint(settings, database), go_on, tree_view())
    return report.exit_of(anyio.run(launch.run, lambda ended: report.tell(ended, as_json=as_json)))


async def _check(reads: Reads, database: Path, execution: str, settings: Settings) -> None:
    """Refuse what cannot go on here before anything is written; raises Unready, UnknownName, NoModel."""
    from registry import is_rehearsed
    from runner.core.history import name_of
    from runner.resume.readiness import Unready
    from server.cli.checks import preflight
    from server.cli.store import lacks_by_tree

    row = await reads.execution(execution)
    assert row is not None
    if row["finished_at"] is None:
        for lacks in (await lacks_by_tree(reads, database, row["root_execution_id"])).values():
            raise Unready(execution, lacks)
        return
    body = await reads.snapshot(row["config_hash"]) if row["config_hash"] else None
    if body is None or not is_rehearsed(body):  # what was only rehearsed is continued as it was configured
        preflight.check(settings, name_of(row), os.environ, rehearse=settings.rehearse)
