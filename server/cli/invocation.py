"""How this process was called: what a person has to type to call it again, and whether a program reads its answer.

Owns: the words before a command that is printed for a person to type. Must not know: any command.
Invariant: a printed command works where it is read, in the same folder: the program by a path that leads to this one, the
configuration and the database that were named.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NAME = "outrider"
KEPT = ("--config", "--db")
"""Options that say where everything is; they may stand before every command."""

_COMMAND = re.compile(rf"`{NAME} (?P<words>[^`]*)`")


@dataclass(frozen=True, slots=True)
class Invocation:
    """The words of a command line."""

    words: Sequence[str] = ()

    @property
    def wants_json(self) -> bool:
        """Whether a program reads the answer; known before the words are understood, and where they are not."""
        return "--json" in self._options

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
    from server.cli.options import used

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
