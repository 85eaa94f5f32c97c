"""`outrider install`: write Outrider's entry into a client's file, after showing the change."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import ConfigOption, DatabaseOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from server.cli.install.clients import ClientProgram

COLOURS = {"+": "32", "-": "31", "@": "36"}


def install(  # noqa: PLR0913 - the options of a command are its parameters
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="claude-desktop, claude-code, cursor or vscode.")],
    only_print: Annotated[bool, typer.Option("--print", help="Print the entry, write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write without asking.")] = False,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the server in the client.")] = "outrider",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Another file, such as a project's .vscode/mcp.json.")
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="URL", help="Use a running server instead of starting one.")
    ] = None,
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="NAME", help="Environment variable with the token of that server.")
    ] = None,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Add Outrider to a client: show the change to its file, ask, keep everything else.

    For example: outrider install claude-desktop
    """
    from server.cli.install.client_entry import EntryOptions, told
    from server.cli.install.client_file import edit_of, write
    from server.cli.install.clients import client_named
    from server.cli.terminal.output import note, put_json

    chosen = client_named(client)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,39}", name):
        raise CommandError(f"`{name}` cannot name a server", "use up to 40 letters, digits, `-` and `_`")
    found = told(chosen, EntryOptions(config, db, http, token_env))
    if only_print:
        put_json({chosen.section: {name: found.entry}})
        return Exit.DONE
    edit = edit_of(_place(file, chosen), chosen, name, found.entry)
    if edit is None:
        note(f"{chosen.title} knows `{name}` already, with the same entry; nothing was written")
        return Exit.DONE
    _show(edit.difference)
    if not (yes or _agreed(edit.file)):
        note("nothing was written")
        return Exit.CANCELLED
    backup = write(edit)
    note(f"wrote {edit.file}" + (f"; the previous version is {backup.name}, beside it" if backup else ""))
    note(_about_variables(chosen, found.variables))
    note(f"now {chosen.restart}")
    return Exit.DONE


def _place(explicit: Path | None, client: ClientProgram) -> Path:
    """The file to change; raises CommandError where the client never ran."""
    from server.cli.install.clients import Surroundings

    if explicit is not None:
        return explicit.expanduser().absolute()
    file = client.place(Surroundings())
    if not file.parent.is_dir():
        raise CommandError(
            f"{client.title} has no folder `{file.parent}` here",
            f"start {client.title} once, or name its file with `--file`; `--print` shows what to put there",
            Exit.NOT_FOUND,
            names_places=False,
        )
    return file


def _show(difference: Sequence[str]) -> None:
    from server.cli.terminal.output import say

    for line in difference:
        say(line, COLOURS.get(line[:1], ""))


def _agreed(file: Path) -> bool:
    """Ask the person; where there is none, nothing is written."""
    from server.cli.terminal.output import ask

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError(
            "nothing was written: there is no terminal to ask at", "`--yes` writes without asking, `--print` only prints"
        )
    ask(f"write this to {file}? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _about_variables(client: ClientProgram, variables: Sequence[str]) -> str:
    """Where the server's keys come from: never from us."""
    names = ", ".join(f"`{name}`" for name in variables)
    if not names:
        return "the server has its own keys; none was written"
    if client.reference:
        return f"{names} will be taken from the environment {client.title} runs in; no value was written"
    return f"{client.title} passes on no variables: put {names} into an `env` of the entry, by hand; no value was written"
