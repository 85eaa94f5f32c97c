"""The console entry point: which commands there are, what stands before them, and how a failure leaves.

Owns the list of commands and the exit of the process. Must not know: how a command works.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from server.cli.agents import agents
from server.cli.approve import approve
from server.cli.cancel import cancel
from server.cli.chat import chat
from server.cli.completion import QUESTION, completion
from server.cli.config import config_app
from server.cli.dashboard import dashboard
from server.cli.delete import delete
from server.cli.demo import demo
from server.cli.diff import diff
from server.cli.doctor import doctor
from server.cli.errors import errors
from server.cli.export import export
from server.cli.init import init
from server.cli.install.command import install
from server.cli.message import message
from server.cli.ps import ps
from server.cli.replay import replay
from server.cli.rerun import rerun
from server.cli.resume import resume
from server.cli.run import run
from server.cli.serve import serve
from server.cli.show.command import show
from server.cli.sql import sql
from server.cli.terminal.exits import CommandFailure, Exit, explain
from server.cli.terminal.help_page import Commands, Page
from server.cli.terminal.options import ConfigOption, DatabaseOption, Given, begin, remember, wants_json
from server.cli.terminal.output import LogLines, put, settle_streams, tell
from server.cli.watch import watch

EXAMPLE = 'For example: outrider run Investigator "why is checkout slow?"'

app = typer.Typer(
    name="outrider",
    cls=Commands,
    help="Dispatch agents, watch them work, ask what they did.",
    epilog=EXAMPLE,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)

RUN, LOOK, CONFIGURE = "Run", "Look", "Configure"

for heading, commands in (
    (RUN, (demo, run, chat, serve, dashboard, resume, rerun, message, approve, cancel, delete)),
    (LOOK, (ps, watch, show, errors, sql, export, replay, diff)),
    (CONFIGURE, (init, agents, doctor, install, completion)),
):
    for command in commands:
        app.command(cls=Page, rich_help_panel=heading)(command)
app.add_typer(config_app, name="config", rich_help_panel=CONFIGURE)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        put(f"outrider {version('outrider')}")
        raise typer.Exit


@app.callback()
def outrider(
    context: typer.Context,
    config: ConfigOption = None,
    db: DatabaseOption = None,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """Dispatch agents, watch them work, ask what they did."""
    remember(Given(config, db))
    if context.invoked_subcommand is None:
        put(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every way it can fail ends here, in words and with its code."""
    settle_streams()
    _settle_log()
    atexit.register(gc.freeze)  # else the interpreter ends with a search for garbage in all that was imported: 0.3 s
    if shell := os.environ.get(QUESTION):
        return _complete(shell, arguments)
    begin(sys.argv[1:] if arguments is None else arguments)
    try:
        code: Any = app(args=arguments, standalone_mode=False, prog_name="outrider")
        return int(code) if isinstance(code, int) else Exit.DONE
    except (KeyboardInterrupt, typer.Abort):
        if wants_json():
            tell(CommandFailure("interrupted from the keyboard", "", Exit.INTERRUPTED))
        return Exit.INTERRUPTED
    except Exception as error:
        logging.getLogger("outrider").debug("the command failed", exc_info=True)
        failure = explain(error)
        tell(failure)
        return failure.code


def _complete(shell: str, arguments: Sequence[str] | None) -> int:
    from server.cli.completion import answer

    for line in answer(shell, typer.main.get_command(app), sys.argv[1:] if arguments is None else arguments):
        put(line)
    return Exit.DONE


def _settle_log() -> None:
    """Log lines stay away unless asked for."""
    level = os.environ.get("OUTRIDER_LOG", "").upper()
    if level in logging.getLevelNamesMapping():
        handler = logging.StreamHandler()
        handler.setFormatter(LogLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
        logging.basicConfig(level=level, handlers=[handler])
    else:
        # What happens to an execution is in its rows and on the screen; a log line in between would only tear the tree.
        logging.getLogger().addHandler(logging.NullHandler())
