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

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration; else $OUTRIDER_CONFIG, ./config.yaml, the packaged one."),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", help="Database, a path or sqlite:///path; else $OUTRIDER_DATABASE_URL."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@dataclass(frozen=True, slots=True)
class Given:
    """What stood before the command."""

    config: Path | None = None
    database: str | None = None


_given: ContextVar[Given] = ContextVar("given", default=Given())  # noqa: B039 - frozen


def remember(given: Given) -> None:
    """Keep the options that stood before the command."""
    _given.set(given)


def chosen_config(explicit: Path | None) -> Path:
    """The configuration file to use."""
    from registry import find_config

    return find_config(explicit or _given.get().config)


def chosen_settings(explicit: Path | None) -> Settings:
    """The settings to use; raises ConfigError."""
    from registry import load

    return load(chosen_config(explicit))


def explicit_config(explicit: Path | None) -> Path | None:
    """The configuration file, if the command line names one."""
    return explicit or _given.get().config


def chosen_database(explicit: str | None) -> Path:
    """The database file to use; raises DatabaseUnavailable."""
    from db.location import locate

    return locate(explicit or _given.get().database, os.environ)


def person() -> str:
    """Who sits at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"
