"""Dates for tools and plans: a phrase becomes an ISO date or a range, or is resolved inside a text.

Owns the output forms; `calendar` owns the rules and `phrases` the words. Has no clock and no zone: `now` is aware and in
the user's time zone. Invariants: a range ends with the last second of its last day, and each end has its own offset, so
that DST changes are right; resolving a text twice changes nothing.
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
    """Two ISO timestamps with offsets; the end is included."""

    start: str
    end: str


def resolve_date(phrase: str, now: datetime, locale: str) -> ResolvedDate | None:
    """The day that a phrase names; None if it names none or several."""
    day = day_of(phrase, now, locale)
    return None if day is None else ResolvedDate(day.isoformat(), DAYS[day.weekday()])


def resolve_time_range(phrase: str, now: datetime, locale: str) -> TimeRange | None:
    """The time that a phrase names, from the first second of its first day to the last second of its last; or None."""
    days = days_of(phrase, now, locale)
    if days is None:
        return None
    start = datetime.combine(days.first, time.min, now.tzinfo)
    end = datetime.combine(days.last, time(23, 59, 59, fold=1), now.tzinfo)  # where a day ends twice (DST), the second end
    return TimeRange(start.isoformat(), end.isoformat())


def settled(text: str, now: datetime, locale: str) -> str:
    """Put its date before each unresolved relative phrase: `2026-01-30 (tomorrow)`, `2026-02-01/2026-02-07 (next week)`.

    Supports English and Hebrew. Phrases that are quoted, repeated (`every friday`) or have a date already stay unchanged.
    """

    def replaced(match: re.Match[str]) -> str:
        phrase = match["relative"]
        days = None if phrase is None else days_of(phrase, now, locale)
        if days is None:
            return match[0]
        iso = days.first.isoformat() if days.first == days.last else f"{days.first}/{days.last}"
        return f"{iso} ({phrase})"

    return _unresolved().sub(replaced, text)


@cache
def _unresolved() -> re.Pattern[str]:
    """Matches unresolved phrases as the group `relative`; the alternatives before it match text that must stay."""
    relative = rf"(?:{RELATIVE})(?:['’]s)?"
    kept = (
        _QUOTED,
        rf"(?:\d(?:st|nd|rd|th)?|\b(?:{_MONTHS})[a-z]*),?\s*\([^()]*\)",  # a date, followed by the phrase in parentheses
        rf"\b(?:{relative}),?\s*\(?{_DATE}(?:/{_DATE})?(?:\s*\([^()]*\))?",
        rf"\b(?:every|each|כל)\s+(?:other\s+)?(?:{WEEKDAY})(?:(?:,|\s+and|\s+or|,\s*and|/)\s*(?:{WEEKDAY}))*",
        rf"\b(?:{_NAMED_DAYS})\s+(?:{WEEKDAY})",
        rf"\b(?:{WEEKDAY}),?\s+(?:the\s+)?(?:\d{{1,2}}(?:st|nd|rd|th|[./]|,?\s+(?:{_MONTHS}))|(?:{_MONTHS})[a-z]*\.?\s+\d)",
    )
    bounded = rf"(?<![\w/@#.-])(?P<relative>{relative})(?![\w/@-]|\.\w)"
    return re.compile("|".join((*kept, bounded)), re.IGNORECASE)
