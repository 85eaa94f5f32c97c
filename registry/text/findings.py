"""Findings: the problems of one configuration, gathered until all of them are known.

Owns: the list of problems and which parts of the tree they spoil. Must not know: what is checked.
Invariant: a part that already has a problem is not reported again for what follows from it.
"""

from registry.text.errors import ConfigProblem, TreePath
from registry.text.locate import Located
from registry.text.variables import Expanded


class Findings:
    """Gathers problems while a configuration is checked."""

    def __init__(self, located: Located, problems: list[ConfigProblem], *, stored: bool = False) -> None:
        """Begin with the problems of form; `stored` says that it was sound once, and executions go on with it."""
        self.stored = stored
        self.located = located
        self.problems = list(problems)
        self._spoilt: set[TreePath] = set()

    def add(self, path: TreePath, message: str, hint: str = "", *, key: bool = False) -> None:
        """Record a problem with what stands at the path, or with its key."""
        self._spoilt.add(path)
        self.problems.append(self.located.problem(path, message, hint, key=key))

    def written(self, path: TreePath, name: str) -> str:
        """Return a name that stands at the path, or in its short form one step above, as its file spells it."""
        for place in (path, path[:-1], (*path, "name")):
            value = self.located.value(place)
            if isinstance(value, Expanded):
                return value.source
        return name

    def sound(self, *path: str | int) -> bool:
        """Say whether nothing at the path or below it has a problem, so that conclusions may be drawn from it."""
        return not any(each[: len(path)] == path or path[: len(each)] == each for each in self._spoilt)
