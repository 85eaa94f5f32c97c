"""`outrider watch`: the live tree of an execution that any process runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.terminal.options import ConfigOption, DatabaseOption, chosen_database


def watch(
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="An execution anywhere in a tree: its id, short or whole.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout for each event.")] = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Watch an execution and everything below it: a live tree on stderr, the answer on stdout.

    It only reads: any process may run the tree, and it may have ended. Ctrl-C leaves and stops nothing (130); else
    the exit code is that of the execution. When the process that runs the tree dies, a terminal says what resumes it and
    stays; elsewhere the command ends with exit code 1.

    For example: outrider watch 0123
    """
    import anyio

    return anyio.run(_watch, chosen_database(db, config), identifier, as_json)


async def _watch(database: Path, identifier: str, as_json: bool) -> int:
    from server.cli.live.live_watch import LiveWatch
    from server.cli.store import reading

    async with reading(database) as reads:
        watched = LiveWatch(reads, database, await reads.resolve(identifier))
        return await (watched.put_events() if as_json else watched.run())
