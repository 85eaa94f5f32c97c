"""The command line as it was called: shared options, the files they resolve to, and commands printed for a person to type.

Owns the spelling and precedence of options (after the command → before the command → environment → default), and the words
before a printed command. Must not know: any command. Invariants: a printed command works in the same folder, with the same
configuration and database; no error in naming these files hides the error that is reported.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
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

NAME = "outrider"

_COMMAND = re.compile(rf"`{NAME} (?P<words>[^`]*)`")


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
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


KEPT = ("--config", "--db")
"""Options that say where everything is; they may stand before every command."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The words of a command line."""

    words: Sequence[str] = ()

    @property
    def wants_json(self) -> bool:
        """Whether a program reads the answer; known before the words are understood, and where they are not."""
        return "--json" in self._options and self.command != "export"  # whose `--json` names a file

    @property
    def command(self) -> str:
        """The command: the first word that is neither an option nor the value of one that stands before it."""
        values = {number + 1 for number, word in enumerate(self._options) if word in KEPT}
        words = (word for number, word in enumerate(self._options) if number not in values and not word.startswith("-"))
        return next(words, "")

    @property
    def places(self) -> list[str]:
        """The configuration and the database it names, as options."""
        return [word for option, value in self._places() for word in (option, value)]

    @property
    def _options(self) -> Sequence[str]:
        words = list(self.words)
        return words[: words.index("--")] if "--" in words else words

    def _places(self) -> Iterator[tuple[str, str]]:
        last = dict[str, str]()
        for word, following in zip(self._options, [*self._options[1:], ""], strict=False):
            option, given, value = word.partition("=")
            if option in KEPT and (given or following):
                last[option] = value if given else following  # of two that are given, the later one counts
        yield from last.items()


_invocation = Invocation()


def begin(words: Sequence[str]) -> Invocation:
    """Keep the words this command was called with."""
    global _invocation  # noqa: PLW0603 - one process is called once
    _invocation = Invocation(tuple(words))
    return _invocation


def wants_json() -> bool:
    """Whether a program reads the answer of this command."""
    return _invocation.wants_json


def command(words: str) -> str:
    """A command of this program, as it can be typed here."""
    places = _invocation.places
    if words.split()[:1] == ["demo"] and "--config" in places:
        places = _database_alone()
    return f"{' '.join([program(), *map(shlex.quote, places)])} {words}"


def _database_alone() -> list[str]:
    """The database in use as an option: the demonstration has a configuration of its own, and can be kept there as well."""

    return ["--db", str(used().database)] if used().database is not None else []


def runnable(text: str) -> str:
    """A text with the commands in it, which stand as `outrider …`, as they can be typed here."""
    return _COMMAND.sub(lambda found: f"`{command(found['words'])}`", text)


def program() -> str:
    """What to type to call this program."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":  # python -m outrider
        beside = Path(sys.executable).with_name(NAME)
        return NAME if _is_on_path(beside) else f"{_typed(Path(sys.executable))} -m {NAME}"
    if called.stem != NAME or not called.is_file() or _is_on_path(called):
        return NAME
    return _typed(called)


def _is_on_path(script: Path) -> bool:
    if "UV" in os.environ:  # uv extends the path for what it starts, and for no other program
        return False
    found = shutil.which(NAME)
    return found is not None and script.is_file() and Path(found).samefile(script)


def _typed(path: Path) -> str:
    """A path as it is typed in the current folder."""
    here, whole = Path.cwd(), path.absolute()
    if not whole.is_relative_to(here):
        return shlex.quote(str(whole))
    near = whole.relative_to(here)
    return shlex.quote(str(near) if len(near.parts) > 1 else f".{os.sep}{near}")


@dataclass(frozen=True, slots=True)
class OtherDatabase:
    """A database with executions in it."""

    path: Path
    executions: int


def places_used() -> str:
    """The configuration and the database of this command, a line each; empty where it used none."""
    found = used()
    named = (("configuration", found.config), ("database", found.database))
    return "".join(f"\n  {name}: {path}" for name, path in named if path is not None)


def look_elsewhere() -> str:
    """Where else executions are, as the end of a hint; empty where there are none."""
    kept = of_user_instead()
    if kept is None:
        return ""
    return f"; this user's database holds {kept.executions:,} more: add `--db {kept.path}` to look there"


def of_user_instead() -> OtherDatabase | None:
    """The user's database, where a project's is used by default and the user's holds executions."""
    from db.errors import StoreError
    from db.query.query import query
    from db.store.location import FOLDER, of_user

    path, ours = of_user(os.environ), used().database
    if ours is None or ours.parent.name != FOLDER or path == ours or not path.exists():
        return None
    try:
        [(number,)] = query(path, "select count(*) from executions").rows
    except (StoreError, ValueError):
        return None
    return OtherDatabase(path, number) if number else None
