"""Label matchers (`=`, `!=`, `=~`, `!~`) as both the log and the metric language use them.

Owns what a matcher means and which regular expressions are let in; the two query languages own how it is written.
Invariant: a missing label is an empty value, and a regular expression must match the whole value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from outrider_sre.errors import BadRequestError

OPERATORS = ("=", "!=", "=~", "!~")
PATTERN_LENGTH = 200
"""Longer expressions are always a mistake here, and the cost of a bad one grows with its length."""

_QUANTIFIERS = "*+{"
_NOT_LINEAR = re.compile(r"\(\?[=!<P]|\\[1-9]")
_PATTERN_HINT = "use plain RE2 syntax, for example `error|warn`, `5..` or `pool.*exhausted`"


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on one label."""

    label: str
    operator: str
    value: str
    _pattern: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        pattern = compile_pattern(self.value) if self.operator in ("=~", "!~") else None
        object.__setattr__(self, "_pattern", pattern)

    def matches(self, value: str) -> bool:
        """Whether this value of the label is let through."""
        if self._pattern is None:
            return (value == self.value) == (self.operator == "=")

        return (self._pattern.fullmatch(value) is not None) == (self.operator == "=~")

    def __str__(self) -> str:
        return f'{self.label}{self.operator}"{self.value}"'


def all_match(matchers: tuple[Matcher, ...], labels: Mapping[str, str]) -> bool:
    """Whether the labels satisfy every matcher."""
    return all(matcher.matches(labels.get(matcher.label, "")) for matcher in matchers)


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression that cannot run away.

    RE2, which the real systems use, is linear by construction; Python's engine is not. So what RE2 refuses is refused
    here too, and so is a repeated group that itself repeats, the form that makes matching exponential.
    """
    if len(text) > PATTERN_LENGTH:
        raise BadRequestError(f"the regular expression is longer than {PATTERN_LENGTH} characters", _PATTERN_HINT)

    if _NOT_LINEAR.search(text):
        raise BadRequestError(f"look-around, named groups and back-references are not served: `{text}`", _PATTERN_HINT)

    if _repeats_a_repetition(text):
        raise BadRequestError(f"a repeated group must not itself contain a repetition: `{text}`", _PATTERN_HINT)

    try:
        return re.compile(text)
    except re.error as error:
        raise BadRequestError(f"`{text}` is not a regular expression: {error}", _PATTERN_HINT) from None


def _repeats_a_repetition(text: str) -> bool:
    repeats: list[bool] = [False]
    position, in_class = 0, False
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\":
            position += 1
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character == "(":
            repeats.append(False)
        elif character == ")" and len(repeats) > 1:
            inner = repeats.pop()
            repeated = text[position : position + 1] in tuple(_QUANTIFIERS)
            if inner and repeated:
                return True
            repeats[-1] = repeats[-1] or inner or repeated
        elif character in _QUANTIFIERS:
            repeats[-1] = True

    return False
