"""Rendering: evaluates the tree of a template with values.

Owns: the evaluation, node by node, and its bounds. Must not know: where templates and values come from.
Invariant: a value is never executed, its output goes through `quote` and is not parsed again, and evaluation ends: steps
and characters are limited.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from registry.text.errors import RegistryError
from registry.text.template_words import FILTERS, TESTS, attribute, compared, elements, text_of

MOST_STEPS = 200_000
MOST_CHARACTERS = 4_000_000
_CHARACTERS_A_STEP = 50
"""The output of a filter counts too."""
_STEPS_AN_INCLUDE = 10

Scope = Mapping[str, Any]
Quote = Callable[[str], str]


class TooMuch(RegistryError):
    """A template whose output exceeds the bounds."""

    def __init__(self, file: str, line: int) -> None:
        """Name the file and line."""
        where = f"line {line}" if file.endswith("/") or not file else f"`{file}`, line {line}"
        super().__init__(f"the output of the template is too long ({where})")
        self.hint = f"nest fewer loops: it may have {MOST_CHARACTERS:,} characters"


class Rendering:
    """One rendering of a checked template."""

    def __init__(self, included: Callable[[str, str], tuple[str, Any]], quote: Quote) -> None:
        """`included` returns the name and the tree of a file, given the including file and the path as written there."""
        self._included, self._quote = included, quote
        self._parts: list[str] = []
        self._characters = self._steps = 0
        self._file = ""

    def text(self, file: str, tree: Any, values: Scope) -> str:
        """Return the whole text; raises TooMuch."""
        self._file = file
        self._write(tree.body, values)
        return "".join(self._parts)

    def _write(self, body: Sequence[Any], scope: Scope) -> None:
        for node in body:
            self._spend(node)
            kind = type(node).__name__
            if kind == "Output":
                self._put_out(node.nodes, scope)
            elif kind == "If":
                self._write(self._branch(node, scope), scope)
            elif kind == "For":
                self._repeat(node, scope)
            else:
                self._include(node, scope)

    def _put_out(self, parts: Sequence[Any], scope: Scope) -> None:
        for part in parts:
            plain = type(part).__name__ == "TemplateData"
            text = part.data if plain else self._quote(text_of(self._value(part, scope)))
            self._characters += len(text)
            if self._characters > MOST_CHARACTERS:
                raise TooMuch(self._file, part.lineno)
            self._parts.append(text)

    def _branch(self, node: Any, scope: Scope) -> Sequence[Any]:
        for each in (node, *node.elif_):
            if self._value(each.test, scope):
                return each.body  # type: ignore[no-any-return]
        return node.else_  # type: ignore[no-any-return]

    def _repeat(self, node: Any, scope: Scope) -> None:
        values = elements(self._value(node.iter, scope))
        self._spend(node, len(values))
        scopes = [{**scope, **_named(node.target, each)} for each in values]
        if node.test is not None:
            scopes = [each for each in scopes if self._value(node.test, each)]
        last = len(scopes) - 1
        for index, each in enumerate(scopes):
            place = {"index": index + 1, "index0": index, "first": index == 0, "last": index == last, "length": last + 1}
            self._write(node.body, {**each, "loop": place})
        if not scopes:
            self._write(node.else_, scope)

    def _include(self, node: Any, scope: Scope) -> None:
        self._spend(node, _STEPS_AN_INCLUDE)
        outer = self._file
        self._file, tree = self._included(outer, node.template.value)
        self._write(tree.body, scope)
        self._file = outer

    def _value(self, node: Any, scope: Scope) -> Any:
        self._spend(node)
        return _VALUES[type(node).__name__](self, node, scope)

    def _spend(self, node: Any, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise TooMuch(self._file, node.lineno)

    def _compare(self, node: Any, scope: Scope) -> bool:
        left = self._value(node.expr, scope)
        for operand in node.ops:
            right = self._value(operand.expr, scope)
            if not compared(operand.op, left, right):
                return False
            left = right
        return True

    def _choose(self, node: Any, scope: Scope) -> Any:
        if self._value(node.test, scope):
            return self._value(node.expr1, scope)
        return None if node.expr2 is None else self._value(node.expr2, scope)

    def _filter(self, node: Any, scope: Scope) -> Any:
        change, _ = FILTERS[node.name]
        made = change(self._value(node.node, scope), *(each.value for each in node.args))
        self._spend(node, len(made) // _CHARACTERS_A_STEP if isinstance(made, str) else 0)
        return made


_VALUES: Mapping[str, Callable[[Rendering, Any, Scope], Any]] = {
    "Name": lambda _, node, scope: scope.get(node.name),
    "Const": lambda _, node, scope: node.value,
    "List": lambda at, node, scope: [at._value(each, scope) for each in node.items],
    "Tuple": lambda at, node, scope: [at._value(each, scope) for each in node.items],
    "Getattr": lambda at, node, scope: attribute(at._value(node.node, scope), node.attr),
    "Getitem": lambda at, node, scope: attribute(at._value(node.node, scope), at._value(node.arg, scope)),
    "And": lambda at, node, scope: at._value(node.left, scope) and at._value(node.right, scope),
    "Or": lambda at, node, scope: at._value(node.left, scope) or at._value(node.right, scope),
    "Not": lambda at, node, scope: not at._value(node.node, scope),
    "Test": lambda at, node, scope: TESTS[node.name](at._value(node.node, scope)),
    "Compare": Rendering._compare,
    "CondExpr": Rendering._choose,
    "Filter": Rendering._filter,
}
"""The evaluation of each kind of node."""


def _named(target: Any, value: Any) -> dict[str, Any]:
    """Return the names that one pass of a loop binds."""
    if type(target).__name__ == "Name":
        return {target.name: value}
    values = elements(value)
    return {each.name: values[index] if index < len(values) else None for index, each in enumerate(target.items)}
