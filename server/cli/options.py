"""Options that commands share, and what they resolve to: the configuration, the database, who is asking.

Owns their spelling and precedence: after the command → before the command → environment → default.
Must not know: any command.
"""

from __future__ import annotations

import getpass
import os
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from registry import Settings
    from server.project import ProjectConfig

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration; else $OUTRIDER_CONFIG, config.yaml here or above, or the packaged.",
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="Database; else $OUTRIDER_DATABASE_URL, .outrider/ beside the configuration."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@dataclass(frozen=True, slots=True)
class Given:
    """What stood before the command."""

    config: Path | None = None
    database: str | None = None


_given: ContextVar[Given] = ContextVar("given", default=Given())  # noqa: B039 - frozen


@dataclass(slots=True)
class Used:
    """The files a command has resolved its options to, for errors that have to name them."""

    config: Path | None = None
    database: Path | None = None


_used: ContextVar[Used] = ContextVar("used", default=Used())  # noqa: B039 - replaced for every command


def remember(given: Given) -> None:
    """Keep the options that stood before the command."""
    _given.set(given)
    _used.set(Used())


def used() -> Used:
    """The configuration and the database of this command, as far as it has asked for them."""
    return _used.get()


def chosen_config(explicit: Path | None) -> Path:
    """The configuration file to use."""
    return _project(explicit).path


def _project(explicit: Path | None) -> ProjectConfig:
    from server.project import find_config

    found = find_config(explicit or _given.get().config)
    _used.get().config = found.path
    return found


def chosen_settings(explicit: Path | None) -> Settings:
    """The settings to use; raises ConfigError."""
    from registry import load

    return load(chosen_config(explicit))


def explicit_config(explicit: Path | None) -> Path | None:
    """The configuration file, if the command line names one."""
    return explicit or _given.get().config


def chosen_database(explicit: str | None, config: Path | None = None) -> Path:
    """The database file to use: of the project whose configuration is in use. Raises DatabaseUnavailable."""
    from db.store.location import locate

    path = locate(explicit or _given.get().database, os.environ, _project(config).project)
    _used.get().database = path
    return path


def person() -> str:
    """Who sits at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"
