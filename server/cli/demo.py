"""`outrider demo`: the packaged SRE investigation, rehearsed: offline, without a key, and watched live."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from server.cli.terminal.options import (
    ConfigOption,
    DatabaseOption,
    JsonOption,
    chosen_config,
    chosen_database,
    explicit_config,
)

CHAIN = "sre-investigation"
PACE = 0.4
"""Seconds a rehearsed reply takes: slow enough to be watched, fast enough not to bore."""


def demo(
    fast: Annotated[bool, typer.Option("--fast", help="Play the rehearsal without delays.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Ask the real model; needs a key and costs money.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Watch an SRE investigation unfold, offline and without a key."""
    import anyio

    from outrider_sre.incident import incident_folder
    from registry import load
    from server.app import Blueprint
    from server.cli.checks import preflight
    from server.cli.live.live_run import LiveRun, ordered
    from server.cli.live.run_arguments import RunArguments, order_of
    from server.cli.show import report
    from server.cli.show.tree_view import tree_view
    from server.project import packaged_config

    settings = load(explicit_config(config) or packaged_config())
    order = order_of(RunArguments(CHAIN, alert=str(incident_folder() / "alert.json")), settings)
    preflight.check(settings, order.name, os.environ, rehearse=not live)
    if live:
        preflight.check_live(settings, order.name, os.environ)
    pace = 0.0 if fast else PACE
    blueprint = Blueprint(settings if live else settings.rehearsed(), chosen_database(db, config), pace=pace)

    lead = settings.chain(order.name).stages[0].agents[0].name

    def tell(ended: report.EndedRun) -> None:
        report.tell(ended, as_json=as_json)
        if ended.child.status == "completed":
            _what_next(ended.short_id, lead, None if explicit_config(config) else settings.source)

    return report.exit_of(anyio.run(LiveRun(blueprint, ordered(order), tree_view()).run, tell))


def _what_next(short_id: str, lead: str, source: Path | None) -> None:
    import shlex

    from server.cli.terminal.options import command
    from server.cli.terminal.output import note

    own = chosen_config(None)  # in a project of one's own, `run` knows other agents
    where = f"--config {shlex.quote(str(source))} " if source is not None and not own.samefile(source) else ""
    query = "select agent, status, own_seconds, own_tokens from execution_tree order by id"
    show, run = f"show {short_id}", f'{where}run {lead} "why is checkout slow?"'
    commands = [f"{show} --tree", f"{show} --transcript --all", "dashboard", f'sql "{query}"', run]
    note("\n  ".join(["what to type next", *map(command, commands)]))
