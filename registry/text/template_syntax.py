"""The syntax of templates: a small part of Jinja2's.

Owns: parsing a template into a tree, and the allowed nodes. Must not know: what a tree means.
Invariant: every node that is not listed here is refused, also those that Jinja2 adds later. Only Jinja2's parser is used,
imported when a configuration has a template; it never evaluates one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from registry.text.names import listed, nearest
from registry.text.template_words import FILTERS, TESTS

if TYPE_CHECKING:
    from jinja2 import Environment, nodes

MOST_NESTING = 30
"""How deep the parts of a template may be nested."""

_PLAIN = frozenset({"Template", "Output", "TemplateData", "Name", "Getattr", "Getitem", "If", "CondExpr", "Compare",
                    "Operand", "And", "Or", "Not", "List", "Tuple"})  # fmt: skip
"""Nodes that are allowed anywhere, with any allowed content."""

_TAUGHT = "use `{{ name }}`, `if`, `for`, `include`, comparisons and filters; `{% raw %}` keeps braces as they are"

_REFUSED: Mapping[str, str] = {
    "Call": "a call",
    "CallBlock": "a macro",
    "Macro": "a macro",
    "Import": "an import",
    "FromImport": "an import",
    "Extends": "inheritance",
    "Block": "inheritance",
    "Assign": "an assignment",
    "AssignBlock": "an assignment",
    "Slice": "a slice",
    "FilterBlock": "a filter over a block",
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow", "Neg", "Pos", "Concat"), "arithmetic"),
}


@dataclass(frozen=True, slots=True)
class TemplateFault:
    """A fault of a template, and its position. `file` is empty for a text in the configuration itself."""

    file: str
    line: int
    message: str
    hint: str = ""


class Malformed(Exception):
    """A text is not a template; carries the line and the fault."""

    def __init__(self, line: int, message: str, hint: str = "") -> None:
        """Keep the line beside the message."""
        super().__init__(message)
        self.line, self.hint = line, hint


@lru_cache(maxsize=256)
def tree_of(text: str) -> "nodes.Template":
    """Return the unchecked tree of a text; raises Malformed."""
    from jinja2 import TemplateSyntaxError

    try:
        return _environment().parse(text)
    except TemplateSyntaxError as error:
        raise Malformed(error.lineno, f"this is not a template: {error.message}", _TAUGHT) from None
    except (RecursionError, ValueError, OverflowError):  # nested parentheses, a number of ten thousand digits
        raise Malformed(1, "this is not a template: it is too long or nested too deeply", _TAUGHT) from None


def faults_in(file: str, text: str) -> Iterator[TemplateFault]:
    """Yield the faults of one text, without the files it includes."""
    try:
        yield from (TemplateFault(file, line, *words) for line, *words in _forbidden(tree_of(text), 1, 0))
    except Malformed as fault:
        yield TemplateFault(file, fault.line, str(fault), fault.hint)


def includes_in(text: str) -> list[tuple[int, str]]:
    """Return the files that a text includes, with their lines; none if the text has faults."""
    from jinja2 import nodes

    try:
        found = tree_of(text).find_all(nodes.Include)
        return [(each.lineno, str(each.template.as_const())) for each in found if _literal(each.template)]
    except (Malformed, RecursionError):
        return []


@cache
def _environment() -> "Environment":
    from jinja2 import Environment

    return Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701 - values are quoted by us


def _forbidden(node: Any, above: int, depth: int) -> Iterator[tuple[int, str, str]]:
    """Yield the forbidden nodes of a tree: line, message and hint. Not every node knows its line."""
    line = node.lineno or above
    if depth > MOST_NESTING:
        yield line, f"a template is nested at most {MOST_NESTING} deep", "take it apart"
        return
    kind = type(node).__name__
    complaint = _COMPLAINTS[kind](node) if kind in _COMPLAINTS else None
    if complaint is None and kind not in _PLAIN and kind not in _COMPLAINTS:
        complaint = f"{_REFUSED.get(kind, 'what begins here')} is not allowed in a template", _TAUGHT
    if complaint is not None:
        yield line, complaint[0], complaint[1]
        return
    for child in node.iter_child_nodes():
        yield from _forbidden(child, line, depth + 1)


Complaint = tuple[str, str] | None


def _literal(node: Any) -> bool:
    return type(node).__name__ == "Const" and isinstance(node.value, str)


def _constant(node: Any) -> Complaint:
    fits = node.value is None or isinstance(node.value, str | int | float)
    return None if fits else ("this is not a value", _TAUGHT)


def _loop(node: Any) -> Complaint:
    if node.recursive:
        return "a loop cannot call itself", "write one loop inside the other"
    targets = node.target.items if type(node.target).__name__ == "Tuple" else [node.target]
    if any(type(each).__name__ != "Name" for each in targets):
        return "a loop gives a value one name, or several in a row", "write `for key, value in data | items`"
    return None


def _include(node: Any) -> Complaint:
    if not _literal(node.template):
        return "an include must name its file literally", 'write its name: `{% include "part.md" %}`'
    if node.ignore_missing or not node.with_context:
        return "an include has a file name and nothing else", 'write `{% include "part.md" %}`'
    return None


def _filter(node: Any) -> Complaint:
    if node.node is None or node.name not in FILTERS:
        near = nearest(node.name, FILTERS)
        first = f"did you mean `{near}`? Known" if near else "known"
        return f"no filter named `{node.name}`", f"{first}: {listed(FILTERS)}"
    return _arguments(node, FILTERS[node.name][1])


def _test(node: Any) -> Complaint:
    if node.name not in TESTS:
        return f"no test named `{node.name}`", f"known: {listed(TESTS)}"
    return _arguments(node, 0)


def _arguments(node: Any, most: int) -> Complaint:
    given = [*node.args, *node.kwargs, *filter(None, (node.dyn_args, node.dyn_kwargs))]
    if len(given) > most:
        return f"`{node.name}` takes {most or 'no'} argument{'' if most == 1 else 's'}", "leave the others out"
    if any(type(each).__name__ != "Const" for each in given):
        return f"an argument of `{node.name}` must be a literal text, number or flag", "write the value itself"
    return None


_COMPLAINTS = {"Const": _constant, "For": _loop, "Include": _include, "Filter": _filter, "Test": _test}
"""Nodes that are allowed in some of their forms."""
