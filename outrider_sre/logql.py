"""A part of LogQL: a stream selector, then line filters and label filters.

Owns the grammar and what a parsed query lets through; knows neither files nor tools. Invariant: what is outside the
grammar is refused with a sentence that says what is accepted, never ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from outrider_sre.errors import BadRequestError
from outrider_sre.matchers import Matcher, all_match, compile_pattern

ACCEPTED = (
    'accepted: `{service="checkout",level=~"error|warn"}`, then any number of line filters (`|= "text"`, `!= "text"`, '
    '`|~ "regex"`, `!~ "regex"`) and label filters (`| upstream="inventory"`); count with the tool `stats`'
)
QUERY_LENGTH = 2000

_STRING = r'"(?:[^"\\\n]|\\.)*"|`[^`]*`'
_MATCHER = re.compile(rf"\s*(?P<label>[A-Za-z_]\w*)\s*(?P<operator>=~|!~|!=|=)\s*(?P<value>{_STRING})\s*")
_LINE_FILTER = re.compile(rf"\s*(?P<operator>\|=|!=|\|~|!~)\s*(?P<value>{_STRING})\s*")
_PIPE = re.compile(r"\s*\|")
_OPENING = re.compile(r"\s*\{\s*")
_COMMA = re.compile(r",\s*")
_CLOSING = re.compile(r"\}\s*")
_METRIC_QUERY = re.compile(r"\s*[A-Za-z_]\w*\s*(?:by\b.*)?\(")
_STAGE = re.compile(r"\s*\|\s*(?P<stage>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Keeps or drops lines by a text or a regular expression found anywhere in the message."""

    pattern: re.Pattern[str]
    keeps: bool

    def lets_through(self, message: str) -> bool:
        """Whether a line with this message stays."""
        return (self.pattern.search(message) is not None) == self.keeps


@dataclass(frozen=True, slots=True)
class LogQuery:
    """A parsed query."""

    selector: tuple[Matcher, ...]
    label_filters: tuple[Matcher, ...]
    line_filters: tuple[LineFilter, ...]

    def matches(self, labels: Mapping[str, str], message: str) -> bool:
        """Whether a line with these labels and this message is selected."""
        return (
            all_match(self.selector, labels)
            and all(one.lets_through(message) for one in self.line_filters)
            and all_match(self.label_filters, labels)
        )


def parse_log_query(query: str) -> LogQuery:
    """Read a query; raises BadRequestError with what is accepted."""
    if len(query) > QUERY_LENGTH:
        raise BadRequestError(f"the query is longer than {QUERY_LENGTH} characters", ACCEPTED)
    if _METRIC_QUERY.match(query):
        raise BadRequestError("metric queries such as `count_over_time(...)` are not supported", ACCEPTED)

    selector, position = _parse_selector(query)
    label_filters: list[Matcher] = []
    line_filters: list[LineFilter] = []
    while position < len(query):
        if found := _LINE_FILTER.match(query, position):
            line_filters.append(_line_filter(found["operator"], _unquote(found["value"])))
        elif found := _label_filter(query, position):
            label_filters.append(Matcher(found["label"], found["operator"], _unquote(found["value"])))
        else:
            raise _refusal(query, position)
        position = found.end()

    return LogQuery(selector, tuple(label_filters), tuple(line_filters))


def _parse_selector(query: str) -> tuple[tuple[Matcher, ...], int]:
    opening = _OPENING.match(query)
    if opening is None:
        raise BadRequestError(f"a query starts with a stream selector in braces, not with `{query[:12]}`", ACCEPTED)

    position = opening.end()
    matchers: list[Matcher] = []
    while not (closing := _CLOSING.match(query, position)):
        found = _MATCHER.match(query, position)
        if found is None:
            unread = query[position : position + 20]
            raise BadRequestError(f"cannot read the selector at column {position + 1}: `{unread}`", ACCEPTED)
        matchers.append(Matcher(found["label"], found["operator"], _unquote(found["value"])))
        position = found.end()
        if comma := _COMMA.match(query, position):
            position = comma.end()
        elif not query.startswith("}", position):
            raise BadRequestError(f"expected `,` or `}}` at column {position + 1} of the selector", ACCEPTED)

    if all(matcher.matches("") for matcher in matchers):
        raise BadRequestError("the selector needs at least one matcher that does not match the empty value", ACCEPTED)

    return tuple(matchers), closing.end()


def _label_filter(query: str, position: int) -> re.Match[str] | None:
    pipe = _PIPE.match(query, position)
    return _MATCHER.match(query, pipe.end()) if pipe else None


def _line_filter(operator: str, value: str) -> LineFilter:
    pattern = compile_pattern(value) if operator in ("|~", "!~") else re.compile(re.escape(value))
    return LineFilter(pattern, keeps=operator.startswith("|"))


def _refusal(query: str, position: int) -> BadRequestError:
    stage = _STAGE.match(query, position)
    if stage:
        return BadRequestError(f"the stage `| {stage['stage']}` is not supported or lacks a quoted value", ACCEPTED)

    return BadRequestError(f"cannot read the query at column {position + 1}: `{query[position:][:20]}`", ACCEPTED)


def _unquote(literal: str) -> str:
    body = literal[1:-1]
    if literal.startswith("`"):
        return body

    # `\"` and `\\` lose their backslash. Any other escape is left to the regular expression, as people write it.
    return re.sub(r'\\(["\\])', r"\1", body)
