"""Dates as tools and plans use them: a phrase becomes an ISO date, a range, or is settled inside a text.

Owns the forms; what a phrase means is `reckoning`'s, the words are `date_phrases`'. Has no clock and no zone: `now` is
aware and in the person's time zone. Invariant: a range ends with the last second of its last day, and each end has the
offset that holds there, so that days on which clocks are changed are right; a text that was settled is not changed again.
"""

from __future__ import annotations

import re
from datetime import datetime, time
from functools import cache
from typing import NamedTuple

from runner.dates.calendar import day_of, days_of
from runner.dates.locale import DAYS
from runner.dates.phrases import RELATIVE, WEEKDAY

_DATE = r"\d{4}-\d{2}-\d{2}"
_QUOTED = r'(?<!\w)"[^"\n]*"(?!\w)|“[^”\n]*”|«[^»\n]*»|`[^`\n]*`|(?<!\w)\'[^\'\n]*\'(?!\w)'
_NAMED_DAYS = "ash|black|cyber|easter|giving|good|holy|maundy|palm|shrove"
_MONTHS = (
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
    "|ב?(?:ינואר|פברואר|מרץ|אפריל|מאי|יוני|יולי|אוגוסט|ספטמבר|אוקטובר|נובמבר|דצמבר)"
)


class ResolvedDate(NamedTuple):
    """A day: its ISO date and its English name."""

    iso: str
    day_of_week: str


class TimeRange(NamedTuple):
    """Two ISO timestamps with offsets; the end is a part of it."""

    start: str
    end: str


def resolve_date(phrase: str, now: datetime, locale: str) -> ResolvedDate | None:
    """The day a phrase names, or None where it names none or several."""
    day = day_of(phrase, now, locale)
    return None if day is None else ResolvedDate(day.isoformat(), DAYS[day.weekday()])


def resolve_time_range(phrase: str, now: datetime, locale: str) -> TimeRange | None:
    """The time a phrase names, from the first second of its first day to the last second of its last; None where none."""
    days = days_of(phrase, now, locale)
    if days is None:
        return None
    start = datetime.combine(days.first, time.min, now.tzinfo)
    end = datetime.combine(days.last, time(23, 59, 59, fold=1), now.tzinfo)  # where a day ends twice, the second time
    return TimeRange(start.isoformat(), end.isoformat())


def settled(text: str, now: datetime, locale: str) -> str:
    """Put its date before each relative phrase that is left: `2026-01-30 (tomorrow)`, `2026-02-01/2026-02-07 (next week)`.

    Knows English and Hebrew. What is quoted, repeated (`every friday`) or has its date already stays as it is.
    """

    def replaced(match: re.Match[str]) -> str:
        phrase = match["relative"]
        days = None if phrase is None else days_of(phrase, now, locale)
        if days is None:
            return match[0]
        iso = days.first.isoformat() if days.first == days.last else f"{days.first}/{days.last}"
        return f"{iso} ({phrase})"

    return _left().sub(replaced, text)


@cache
def _left() -> re.Pattern[str]:
    """What is left to settle, as the group `relative`; before it what looks like it and must stay."""
    relative = rf"(?:{RELATIVE})(?:['’]s)?"
    kept = (
        _QUOTED,
        rf"(?:\d(?:st|nd|rd|th)?|\b(?:{_MONTHS})[a-z]*),?\s*\([^()]*\)",  # a date, and in parentheses what was said
        rf"\b(?:{relative}),?\s*\(?{_DATE}(?:/{_DATE})?(?:\s*\([^()]*\))?",
        rf"\b(?:every|each|כל)\s+(?:other\s+)?(?:{WEEKDAY})(?:(?:,|\s+and|\s+or|,\s*and|/)\s*(?:{WEEKDAY}))*",
        rf"\b(?:{_NAMED_DAYS})\s+(?:{WEEKDAY})",
        rf"\b(?:{WEEKDAY}),?\s+(?:the\s+)?(?:\d{{1,2}}(?:st|nd|rd|th|[./]|,?\s+(?:{_MONTHS}))|(?:{_MONTHS})[a-z]*\.?\s+\d)",
    )
    bounded = rf"(?<![\w/@#.-])(?P<relative>{relative})(?![\w/@-]|\.\w)"
    return re.compile("|".join((*kept, bounded)), re.IGNORECASE)
