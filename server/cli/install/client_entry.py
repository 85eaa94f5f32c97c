"""The entry for a client: the command that starts Outrider here, or the URL of a running server.

Owns the way from the options of the command to the entry. Must not know: clients' files. Invariant: the command works from
any folder and in any environment a client starts it in: every path is absolute.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from server.cli.install.clients import ClientProgram, Entry
from server.cli.terminal.exits import CommandError
from server.cli.terminal.options import chosen_config, chosen_database, explicit_config

ENDPOINT = "/mcp"


@dataclass(frozen=True, slots=True)
class EntryOptions:
    """What the command line says about the server; with `url` it runs already."""

    config: Path | None = None
    database: str | None = None
    url: str | None = None
    token_variable: str | None = None


@dataclass(frozen=True, slots=True)
class EntryText:
    """An entry, and the environment variables its server reads."""

    entry: Entry
    variables: tuple[str, ...] = ()


def told(client: ClientProgram, wish: EntryOptions) -> EntryText:
    """The entry for a client; raises ConfigError for a configuration with which the server would not start."""
    if wish.url is not None:
        return EntryText(client.remote(_address(wish), wish.token_variable))
    if wish.token_variable is not None:
        raise CommandError("`--token-env` is for a server that is running", "give its URL with `--http`")
    from registry import load

    file = chosen_config(wish.config).absolute()
    variables = load(file).variables()
    command = [program(), "serve", "--config", str(file), "--db", str(chosen_database(wish.database, wish.config))]
    return EntryText(client.local(command, variables), variables)


def program() -> str:
    """The path of the program that runs now, or would be run by its name."""
    found = shutil.which("outrider", path=sysconfig.get_path("scripts")) or shutil.which("outrider")
    if found is None:
        raise CommandError("there is no program `outrider` beside this Python", "install Outrider with its scripts")
    if any(re.fullmatch(r"archive-v\d+", part) for part in Path(sys.prefix).parts):
        raise CommandError(
            "this Outrider is in a cache that may be emptied at any time",
            "install it permanently, for example with `uv tool install`, and run this command again",
        )
    return str(Path(found).absolute())


def _address(wish: EntryOptions) -> str:
    given = wish.url or ""
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.password:
        hint = "write it like `http://127.0.0.1:8000/mcp`; a token belongs into a variable, named with `--token-env`"
        raise CommandError(f"`{parts.scheme or given}` does not begin the URL of a server", hint)
    if explicit_config(wish.config) is not None or wish.database is not None:
        raise CommandError("a running server already has its configuration and database", "omit `--config` and `--db`")
    if wish.token_variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", wish.token_variable):
        raise CommandError("`--token-env` takes the name of a variable, not a token", "for example `OUTRIDER_TOKEN`")
    return given if parts.path not in ("", "/") else parts._replace(path=ENDPOINT).geturl()
