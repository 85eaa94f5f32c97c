"""The words of a PromQL query.

Owns splitting text into tokens with their positions, and the one sentence that says what is accepted. Knows no
grammar. Invariant: every character of the query is in exactly one token or is white space.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from outrider_sre.errors import BadRequestError

ACCEPTED = (
    'accepted: selectors such as `name{label="x",other=~"a|b"}` (matchers `=`, `!=`, `=~`, `!~`), a range such as '
    "`[5m]`, `rate`, `increase`, `sum`/`avg`/`max` with `by (...)`, `histogram_quantile`, and comparison (`==` `!=` "
    "`>` `<` `>=` `<=`) or arithmetic (`+` `-` `*` `/` `%` `^`) with a number"
)
QUERY_LENGTH = 2000

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|\#[^\n]*)
  | (?P<duration>(?:\d+(?:ms|[smhdwy]))+(?![\w.]))
  | (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.]))
  | (?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
  | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
  | (?P<operator>=~|!~|==|!=|>=|<=|[-+*/%^<>=(){}\[\],@:])
    """,
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


@dataclass(frozen=True, slots=True)
class Token:
    """One word: its kind (`duration`, `number`, `name`, `string`, `operator` or `end`), text and column."""

    kind: str
    text: str
    column: int


def refusal(message: str) -> BadRequestError:
    """The error for anything outside the accepted part of the language."""
    return BadRequestError(message, ACCEPTED)


def tokenise(query: str) -> list[Token]:
    """All tokens of the query, closed by one of kind `end`."""
    if len(query) > QUERY_LENGTH:
        raise refusal(f"the query is longer than {QUERY_LENGTH} characters")

    tokens: list[Token] = []
    position = 0
    while position < len(query):
        match = _TOKEN.match(query, position)
        if match is None or match.lastgroup is None:
            raise refusal(f"cannot read `{query[position : position + 12]}` at column {position + 1}")
        if match.lastgroup != "space":
            tokens.append(Token(match.lastgroup, match.group(), position + 1))
        position = match.end()

    tokens.append(Token("end", "the end of the query", len(query) + 1))
    return tokens


def unquote(literal: str) -> str:
    """The value of a string token; inside back-quotes nothing is escaped."""
    body = literal[1:-1]
    if literal.startswith("`"):
        return body

    return re.sub(r"\\(.)", lambda escape: _unescape(escape.group(1), literal), body)


def _unescape(character: str, literal: str) -> str:
    if character not in _ESCAPES:
        raise refusal(f"unknown escape `\\{character}` in {literal}; write `\\\\{character}` for a backslash")

    return _ESCAPES[character]
