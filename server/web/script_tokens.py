"""The tokens of an ES module: enough of the language to tell code from texts, comments and regular expressions.

Owns how a script is cut into tokens, and how they become short text again. Must not know: modules, files. Invariant: the
tokens of a script together are the script; `compact` changes no meaning and keeps each line break between statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Kind = Literal["space", "comment", "word", "number", "text", "template", "pattern", "mark"]


class ScriptToken(NamedTuple):
    """A piece of a script."""

    kind: Kind
    text: str


class Unreadable(Exception):
    """A script that ends within a text, template or comment, or has a character that no token begins with."""


_TOKENS = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<word>[A-Za-z_$\#][\w$]*)
  | (?P<number>(?:\d[\w.]*(?:(?<=[eE])[+-]\d+)?|\.\d[\w]*))
  | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<mark>\.\.\.|=>|\?\.(?!\d)|[-+*%&|^!=<>?:;,.(){}\[\]~/@])
    """,
    re.VERBOSE | re.DOTALL,
)
_PATTERN = re.compile(r"/(?![*/])(?:[^\\/\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")

BEFORE_PATTERNS = frozenset(
    "return typeof case in of delete void instanceof new throw do else await yield".split()  # noqa: SIM905 - as one reads it
)
"""The words after which a slash begins a regular expression; after any other it divides."""

HARMFUL = re.compile(r"<(?=/script|!--|script)", re.IGNORECASE)
"""What would end a script element, or change how its end is found."""
TIGHT = frozenset("(){}[],;:=>?|&")
"""Marks that need no space beside them. Not `+`, `-`, `/`, `<`, `!` and `.`, which mean something else in a row."""


def tokens(script: str) -> Iterator[ScriptToken]:
    """The tokens of a script; raises Unreadable."""
    at, before = 0, ScriptToken("space", "")
    while at < len(script):
        token = _token(script, at, before)
        at += len(token.text)
        before = token if token.kind not in ("space", "comment") else before
        yield token


def compact(given: Iterable[ScriptToken]) -> str:
    """A script without comments, indentation and spaces that mean nothing, safe within a script element."""
    written: list[str] = []
    gap = ""
    for token in given:
        if token.kind in ("space", "comment"):
            gap = "\n" if "\n" in token.text or gap == "\n" else " "
            continue
        text = _harmless(token)
        if gap == "\n" and written:
            written.append("\n")
        elif gap == " " and written and written[-1][-1] not in TIGHT and text[0] not in TIGHT:
            written.append(" ")
        written.append(text)
        gap = ""
    return "".join(written)


def _token(script: str, at: int, before: ScriptToken) -> ScriptToken:
    if script[at] == "`":
        return ScriptToken("template", script[at : _template_end(script, at)])
    if script[at] == "/" and not _is_value(before):
        pattern = _PATTERN.match(script, at)
        if pattern is not None:
            return ScriptToken("pattern", pattern[0])
    found = _TOKENS.match(script, at)
    if found is None or found.lastgroup is None or (found[0] == "/" and script[at : at + 2] == "/*"):
        raise Unreadable(f"no token begins with `{script[at : at + 20]}`")
    return ScriptToken(found.lastgroup, found[0])  # type: ignore[arg-type] # the groups are the kinds


def _is_value(token: ScriptToken) -> bool:
    """Whether a value ends with this token, so that a slash after it divides."""
    if token.kind == "word":
        return token.text not in BEFORE_PATTERNS
    return token.kind in ("number", "text", "template", "pattern") or token.text in (")", "]", "}")


def _template_end(script: str, at: int) -> int:
    """The index behind the template that begins at `at`; its expressions may contain further templates."""
    index = at + 1
    while index < len(script):
        if script[index] == "\\":
            index += 2
        elif script[index] == "`":
            return index + 1
        elif script.startswith("${", index):
            index = _expression_end(script, index + 2)
        else:
            index += 1
    raise Unreadable("a template does not end")


def _expression_end(script: str, at: int) -> int:
    depth, before = 1, ScriptToken("mark", "{")
    while at < len(script):
        token = _token(script, at, before)
        at += len(token.text)
        before = token if token.kind not in ("space", "comment") else before
        depth += (token.text == "{") - (token.text == "}")
        if depth == 0:
            return at
    raise Unreadable("an expression within a template does not end")


def _harmless(token: ScriptToken) -> str:
    """The text of a token, with what would end a script element spelt otherwise."""
    if token.kind in ("text", "template", "pattern"):
        return HARMFUL.sub(r"\\x3c", token.text)
    return token.text
