"""`outrider run`: start an agent or a chain, watch its tree, print its answer."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, chosen_settings


def run(  # noqa: PLR0913 - the options of a command are its parameters
    name: Annotated[str | None, typer.Argument(metavar="AGENT|CHAIN", help="What to run; an alert may choose it.")] = None,
    task: Annotated[str | None, typer.Argument(metavar="TASK", help="What to do.", show_default=False)] = None,
    alert: Annotated[str | None, typer.Option("--alert", metavar="FILE|-", help="An alert as JSON; - reads stdin.")] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="K=V", help="Structured input; repeatable.")
    ] = None,
    timeout: Annotated[str | None, typer.Option("--timeout", metavar="300s", help="Time limit of the whole run.")] = None,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="The person it works for.")] = None,
    key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", help="The same key shows its execution and starts none."),
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Run an agent or a chain: a live tree on stderr, the answer on stdout.

    The first Ctrl-C cancels the tree and shows it, the second exits at once. SIGTERM waits for running calls;
    `outrider resume` resumes the rest.
    """
    import anyio

    from server.app import Blueprint
    from server.cli.checks import preflight
    from server.cli.live.live_run import LiveRun, ordered
    from server.cli.live.run_arguments import Resolved, RunArguments, order_of
    from server.cli.show import report
    from server.cli.show.tree_view import tree_view
    from server.cli.terminal.output import note, put_json

    database, settings = chosen_database(db, config), chosen_settings(config)
    try:
        order = order_of(RunArguments(name, task, alert, inputs or (), timeout, user, key), settings)
    except Resolved as resolved:
        note(f"{resolved}: nothing was started")
        if as_json:
            put_json({"started": False, "reason": "resolved", "alerts": list(resolved.types)})
        return 0
    preflight.check(settings, order.name, os.environ, task=order.task)
    launch = LiveRun(Blueprint(settings, database), ordered(order), tree_view())
    ended = anyio.run(launch.run, lambda ended: report.tell(ended, as_json=as_json))
    return report.exit_of(ended)
