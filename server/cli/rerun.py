"""`outrider rerun`: an ended tree once more from one of its executions on; what was before is kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.exits import CommandError
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, chosen_settings

if TYPE_CHECKING:
    from db.rows.reads import Reads, Record
    from runner.service.dispatcher import Dispatcher
    from runner.snapshot import Snapshot


def rerun(  # noqa: PLR0913 - the options of a command are its parameters
    identifier: Annotated[str, typer.Argument(metavar="ID", help="An ended execution: its id, short or whole.")],
    node: Annotated[
        str | None, typer.Option("--from", metavar="EXECUTION", help="Where to begin; else ID itself.", show_default=False)
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="TEXT", help="Its new task; else the one it had.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Do an execution and what followed from it again, as a new tree.

    Executions that do not depend on it keep their results: no model is asked for them, and none of their tools is called
    again. The new tree has fresh limits.
    """
    import anyio

    from registry import is_rehearsed
    from runner.core.history import name_of
    from server.app import Blueprint
    from server.cli.checks import preflight
    from server.cli.live.live_run import LiveRun
    from server.cli.show import report
    from server.cli.show.tree_view import tree_view
    from server.cli.store import reading

    if task is not None and not task.strip():
        raise CommandError("the task is empty", "say what to do, or leave `--task` out to keep the task it had")
    database, settings = chosen_database(db, config), chosen_settings(config)

    async def resolve() -> tuple[str, str]:
        async with reading(database) as reads:
            execution = await reads.resolve(identifier)
            begin = await reads.resolve(node) if node is not None else execution
            row = await _ended_row(reads, execution, begin)
            body = await reads.snapshot(row["config_hash"]) if row["config_hash"] else None
            if body is None or not is_rehearsed(body):
                top = await reads.execution(row["root_execution_id"])
                assert top is not None
                preflight.check(settings, name_of(top), os.environ, rehearse=settings.rehearse)
            return execution, begin

    execution, begin = anyio.run(resolve)

    async def go_on(service: Dispatcher) -> Snapshot:
        return await service.rerun(execution, begin, task)

    launch = LiveRun(Blueprint(settings, database), go_on, tree_view())
    return report.exit_of(anyio.run(launch.run, lambda ended: report.tell(ended, as_json=as_json)))


async def _ended_row(reads: Reads, execution: str, begin: str) -> Record:
    """The row of an execution whose whole tree has ended and has the other one in it, too."""
    row, start = await reads.execution(execution), await reads.execution(begin)
    assert row is not None
    assert start is not None
    root = row["root_execution_id"]
    if start["root_execution_id"] != root:
        hint = f"rerun that tree: `outrider rerun {start['root_execution_id']} --from {begin}`"
        raise CommandError(f"execution `{begin}` is not in the tree of `{execution}`, but in another one", hint)
    for each in await reads.tree_rows(root):
        if each["finished_at"] is None:
            raise CommandError(f"execution `{each['id']}` has not ended", "wait until it ends, or `outrider cancel` it")
    return row
