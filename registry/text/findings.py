"""Findings: the problems of one configuration, collected until all are known.

Owns: the list of problems and the paths that have one. Must not know: what is checked.
Invariant: a part with a problem is not reported again for its consequences.
"""

from registry.text.errors import ConfigProblem, TreePath
from registry.text.locate import Located
from registry.text.variables import Expanded


class Findings:
    """Collects problems while a configuration is checked."""

    def __init__(self, located: Located, problems: list[ConfigProblem], *, stored: bool = False) -> None:
        """Begin with the problems of form; `stored`: it is a snapshot that executions resume with."""
        self.stored = stored
        self.located = located
        self.problems = list(problems)
        self._spoilt: set[TreePath] = set()

    def add(self, path: TreePath, message: str, hint: str = "", *, key: bool = False) -> None:
        """Record a problem with the value at a path, or with its key."""
        self._spoilt.add(path)
        self.problems.append(self.located.problem(path, message, hint, key=key))

    def written(self, path: TreePath, name: str) -> str:
        """Return a name at a path, or in its short form one step above, as the file spells it."""
        for place in (path, path[:-1], (*path, "name")):
            value = self.located.value(place)
            if isinstance(value, Expanded):
                return value.source
        return name

    def sound(self, *path: str | int) -> bool:
        """Say whether the path, the parts above and the parts below have no problem, so that further checks make sense."""
        return not any(each[: len(path)] == path or path[: len(each)] == each for each in self._spoilt)
