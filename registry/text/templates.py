"""Templates and the files they include.

Owns: Template, the resolution of includes, and reading them. Must not know: where values come from.
Invariant: a template is complete: its includes are read with it, and nothing is read when it is rendered. An undefined
name is empty.
"""

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Any

from registry.text.template_rendering import Quote, Rendering
from registry.text.template_syntax import TemplateFault, faults_in, includes_in, tree_of

if TYPE_CHECKING:
    from jinja2 import nodes

MOST_INCLUDED = 100
DEEPEST_INCLUDE = 5


@dataclass(frozen=True, slots=True)
class Template:
    """A template without faults. `name` is its file, relative to the folder of the configuration. For an inline text it is
    empty, or the folder that it includes from, with `/` at its end.
    """

    name: str
    text: str
    included: Mapping[str, str] = field(default_factory=dict)
    """The texts of all files that it includes, directly or not, by name."""

    def variables(self) -> frozenset[str]:
        """Return the names whose values it uses."""
        names = _Names(self)
        names.look(self.name, tree_of(self.text), frozenset())
        return frozenset(names.free)

    def render(self, values: Mapping[str, Any], quote: Quote) -> str:
        """Render with values, each put through `quote`; raises TooMuch."""
        return Rendering(self.include, quote).text(self.name, tree_of(self.text), values)

    def include(self, file: str, written: str) -> "tuple[str, nodes.Template]":
        """Return the name and the tree of a file, given the including file and the path as written there."""
        name = beside(file, written)
        assert name is not None, "checked when it was read"
        return name, tree_of(self.included[name])


def gathered(name: str, text: str, read: Callable[[str], str]) -> tuple[Template, list[TemplateFault]]:
    """Return a template and its faults; `read` returns the text of a file or raises Unusable."""
    gathering = _Gathering(read)
    gathering.look(name, text, ())
    gathering.included.pop(name, None)
    return Template(name, text, gathering.included), gathering.faults


class Unusable(Exception):
    """A file cannot be used; the message says why."""


def beside(file: str, written: str) -> str | None:
    """Return a path that is relative to a file as relative to the configuration's folder; None if it leads out."""
    if not written.strip() or "\\" in written or not written.isprintable() or PureWindowsPath(written).anchor:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(file), written))
    return None if path == ".." or path.startswith(("../", "/")) else path


class _Gathering:
    """Reads the includes of a template, directly and indirectly, each once."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read
        self.included: dict[str, str] = {}
        self.faults: list[TemplateFault] = []
        self._heights: dict[str, int] = {}

    def look(self, name: str, text: str, above: tuple[str, ...]) -> int:
        """Check one text and its includes; return the depth of nesting below it."""
        self.faults.extend(faults_in(name, text))
        below = [self._follow(line, written, (*above, name)) for line, written in includes_in(text)]
        self._heights[name] = 1 + max(below, default=0)
        return self._heights[name]

    def _follow(self, line: int, written: str, above: tuple[str, ...]) -> int:
        """Check an included file; `above` are the files that include it, outermost first."""
        file = above[-1]
        name = beside(file, written)
        if name is None:
            hint = "name a file by its path from this one, with `/`"
            self._fault(file, line, f"`{_shown(written)}` leads out of the folder of the configuration", hint)
            return 0
        if name in above:
            self._fault(file, line, f"`{written}` includes itself", "take one of the two includes out")
            return 0
        height = self._heights[name] if name in self._heights else self._read_on(line, written, name, above)
        if height + len(above) > DEEPEST_INCLUDE + 1 or len(self.included) > MOST_INCLUDED:
            hint = f"includes may be {DEEPEST_INCLUDE} deep, of {MOST_INCLUDED} files"
            self._fault(file, line, f"`{written}` is one include too many", hint)
        return height

    def _read_on(self, line: int, written: str, name: str, above: tuple[str, ...]) -> int:
        if len(above) > DEEPEST_INCLUDE or len(self.included) > MOST_INCLUDED:
            return 1  # enough to report that there are too many
        try:
            self.included[name] = self._read(name)
        except Unusable as fault:
            self._fault(above[-1], line, f"`{written}` cannot be included: {fault}", "paths are relative to this file")
            return 0
        return self.look(name, self.included[name], above)

    def _fault(self, file: str, line: int, message: str, hint: str) -> None:
        fault = TemplateFault(file, line, message, hint)
        if fault not in self.faults:
            self.faults.append(fault)


def _shown(written: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in written[:60])


class _Names:
    """Finds the names that a template uses and does not bind itself."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._seen: set[tuple[str, frozenset[str]]] = set()
        self.free: set[str] = set()

    def look(self, file: str, node: Any, bound: frozenset[str]) -> None:
        """Search a node; `bound` are the names that surrounding loops bind."""
        kind = type(node).__name__
        if kind == "Name":
            self.free |= {node.name} - bound
        elif kind == "Include":
            name, tree = self._template.include(file, node.template.value)
            if (name, bound) not in self._seen:
                self._seen.add((name, bound))
                self.look(name, tree, bound)
        elif kind == "For":
            inner = bound | {each.name for each in getattr(node.target, "items", [node.target])} | {"loop"}
            for part, names in [(node.iter, bound), *((each, bound) for each in node.else_),
                                *((each, inner) for each in (*node.body, *filter(None, [node.test])))]:  # fmt: skip
                self.look(file, part, names)
        else:
            for child in node.iter_child_nodes():
                self.look(file, child, bound)
