"""The errors of a configuration, and of a name that does not exist.

    RegistryError
    ├── ConfigError      the configuration cannot be used; carries every problem found in it
    └── UnknownName      no agent, chain, model, server or user has this name

Owns: these errors and the form of their text. Must not know: how problems are found.
Invariant: no text contains the value of an environment variable; every maker of a ConfigProblem keeps to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from registry.text.names import nearest, suggestion

TreePath = tuple[str | int, ...]


def dotted(path: TreePath) -> str:
    """Return a path as people write it: `agents.Investigator.sub_agents[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One fault: its position, a message and a hint. Line and column count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """Return `file:line:column: path: message`, and the hint on a line of its own."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        where = f"{place}: {self.path}" if self.path else place
        return f"{where}: {self.message}" + (f"\n  hint: {self.hint}" if self.hint else "")


class RegistryError(Exception):
    """The root of this package's errors."""

    hint: str = ""


class ConfigError(RegistryError):
    """The configuration cannot be used."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        """Put all problems into one report, in the order of the file."""
        self.problems = tuple(sorted(problems, key=lambda each: (each.file, each.line, each.column, each.path)))
        super().__init__("\n".join(str(problem) for problem in self.problems))
        self.hint = self.problems[0].hint if len(self.problems) == 1 else ""


class UnknownName(RegistryError, LookupError):  # named after the situation
    """No agent, chain, model, server or user has this name."""

    def __init__(self, kind: str, name: str, known: Iterable[str], defined_at: str = "") -> None:
        """Keep the kind and the name, and suggest the nearest known name."""
        self.kind, self.name, self.known = kind, name, tuple(known)
        self.nearest = nearest(name, self.known)
        self.hint = suggestion(name, self.known)
        if self.nearest is not None and defined_at:
            self.hint = f"did you mean `{self.nearest}`? Defined in {defined_at}"
        super().__init__(f"no {kind} named `{name}`")
