"""Names that people and models write: their comparison, their form, and suggestions for unknown ones.

Owns: folding, the patterns a name must match, the reserved server names, "did you mean".
Must not know: what a name refers to. Invariant: two names are the same exactly when they fold alike.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

RESERVED_SERVER_NAMES = frozenset({"orchestrator", "outrider"})
"""Names of Outrider itself and its own tools, which no upstream may use."""

MAX_NAME_LENGTH = 64
"""Tool names sent to a model contain the server's name, and some clients stop at 64 characters."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/-]*")
_SERVER_NAME = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")


def fold(name: str) -> str:
    """Return the form in which names are compared: without case, `-` and `_`."""
    return name.casefold().replace("-", "_")


def name_fault(name: str) -> str | None:
    """Say why `name` cannot name an agent, a chain or a user, or return None when it can."""
    if len(name) > MAX_NAME_LENGTH:
        return f"a name has at most {MAX_NAME_LENGTH} characters"
    if not _NAME.fullmatch(name):
        return "a name has only letters, digits, `-` and `_`, and begins with a letter or digit"
    return None


def model_name_fault(name: str) -> str | None:
    """Say why `name` cannot name a model, or return None when it can."""
    if _MODEL_NAME.fullmatch(name):
        return None
    return "a model's name has only letters, digits and `-_./:@`, and begins with a letter or digit"


def server_name_fault(name: str) -> str | None:
    """Say why `name` cannot name an upstream server, or return None when it can."""
    if fold(name) in RESERVED_SERVER_NAMES:
        return f"`{name}` is reserved for Outrider itself"
    if len(name) > MAX_NAME_LENGTH:
        return f"a server name has at most {MAX_NAME_LENGTH} characters"
    if not _SERVER_NAME.fullmatch(name):
        return "a server name has only letters and digits, with single `-` or `_` between them"
    return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None."""
    by_form: dict[str, str] = {}
    for candidate in known:
        by_form.setdefault(_bare(candidate), candidate)
    matches = difflib.get_close_matches(_bare(name), by_form, n=1, cutoff=0.6)
    return by_form[matches[0]] if matches else None


def listed(names: Iterable[str]) -> str:
    """Return the names for a sentence: in backticks, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: the nearest one, and all known ones."""
    names = list(known)
    if not names:
        return "none is defined"
    near = nearest(name, names)
    first = f"did you mean `{near}`? " if near else ""
    return f"{first}Known: {listed(names)}"


def _bare(name: str) -> str:
    """Return the name without separators, so that `log_analyzer` is near `LogAnalyzer`."""
    return fold(name).replace("_", "")


STAND_IN = "BuiltIn"
"""Prefix of a built-in agent's name when an agent of the user has that name."""


def built_in(name: str, agents: "Directory") -> str:
    """Return the name of a built-in agent in this configuration."""
    return agents.find(STAND_IN + name) or name


class Directory:
    """The names of one kind, found in any spelling."""

    __slots__ = ("_names",)

    def __init__(self, names: Iterable[str]) -> None:
        """Keep the names in their order; of two that fold alike the first wins."""
        self._names: dict[str, str] = {}
        for name in names:
            self._names.setdefault(fold(name), name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names as defined."""
        return iter(self._names.values())

    def find(self, name: str) -> str | None:
        """Return the name as defined, or None if it is unknown."""
        return self._names.get(fold(name))

    def canonical(self, name: str) -> str:
        """Return the name as defined, or unchanged if it is unknown."""
        return self._names.get(fold(name), name)


@dataclass(frozen=True, slots=True)
class Directories:
    """The names that a configuration may refer to."""

    agents: Directory
    servers: Directory
    models: Directory
