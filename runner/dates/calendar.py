"""Calendar: the days that a phrase such as `friday` or `next month` means for a user at a moment.

Owns the rules. Has no clock and no zone: `now` is aware and in the user's time zone. The rules:

- A weekday is the first one from today on; `next friday` is the Friday of next week; `last friday` the one before today.
- A week begins on the day that Unicode's data give for the locale's territory: Sunday in `en-US` and `he-IL`, Monday in
  `en-GB` and `de-DE`. The extension `u-fw` overrides it: `he-IL-u-fw-mon`. The weekend comes from the same data.
- `next 3 days` are three days including today; `last 3 days` end with today.
- A day or month without a year is the first from today on; a month's name includes the current month.

Phrases that `runner.dates.phrases` does not have are parsed by dateparser, in the locale's language, English and Hebrew.
Its import takes 0.1 s and waits for the first phrase. Invariant: a phrase that is not surely understood gives None.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

from runner.dates.locale import LocaleRules, locale_rules
from runner.dates.phrases import Day, MonthDay, Period, Span, Weekday, folded, understand

LONGEST = 100
"""The longest phrase that is parsed, in characters."""

_NOTE = re.compile(r" ?\([^()]*\)$")
_BETWEEN = re.compile(r" (?:to|until|till|through|עד) | ?[–—] ?| - ")
_MONTH = re.compile(r"[^\W\d]{3}|\d{4}")
"""A phrase with a month's name or a year; dateparser would take the 5 of `5th` for a month."""


class Days(NamedTuple):
    """A first and a last day, both included."""

    first: date
    last: date


def day_of(phrase: str, now: datetime, locale: str) -> date | None:
    """The day that a phrase names; None if it names none or several."""
    days = days_of(phrase, now, locale)
    return days.first if days is not None and days.first == days.last else None


def days_of(phrase: str, now: datetime, locale: str) -> Days | None:
    """The days that a phrase names, or None."""
    if len(phrase) > LONGEST:
        return None
    text = _NOTE.sub("", phrase.strip())
    try:
        return _iso(text, now) or _computed(text, now, locale_rules(locale)) or _from_to(text, now, locale)
    except (OverflowError, ValueError):  # outside the supported years
        return None


def _iso(text: str, now: datetime) -> Days | None:
    """An ISO date, a timestamp as a day in the user's zone, or two dates joined by `/`."""
    first, _, last = text.partition("/")
    try:
        return Days(_iso_day(first, now), _iso_day(last or first, now))
    except ValueError:
        return None


def _iso_day(text: str, now: datetime) -> date:
    found = datetime.fromisoformat(text)
    return found.date() if found.tzinfo is None else found.astimezone(now.tzinfo).date()


def _from_to(text: str, now: datetime, locale: str) -> Days | None:
    """From one day to another; the second is the first of its name after the first."""
    parts = _BETWEEN.split(text)
    if len(parts) != 2:
        return None
    first = day_of(parts[0], now, locale)
    last = None if first is None else day_of(parts[1], datetime.combine(first, now.timetz()), locale)
    return None if first is None or last is None or last < first else Days(first, last)


def _computed(text: str, now: datetime, ours: LocaleRules) -> Days | None:
    phrase, today = folded(text), now.date()
    match understand(phrase, ours.weekdays):
        case Day(offset):
            return _one(today + timedelta(offset))
        case Weekday(number, turn):
            return _one(_weekday(today, number, turn, ours))
        case MonthDay(number):
            return _month_day(today, number)
        case Span(days):
            return Days(today, today + timedelta(days - 1)) if days > 0 else Days(today + timedelta(days + 1), today)
        case Period("weekend", turn):
            return _weekend(today, turn, ours)
        case Period("week", turn):
            return _week(today + timedelta(weeks=turn), ours)
        case Period("month", turn):
            return _month(today.year, today.month + turn)
        case Period(_, turn):
            return _year(today.year + turn)
        case None:
            return _read(phrase, now, ours)


def _one(day: date) -> Days:
    return Days(day, day)


def _weekday(today: date, number: int, turn: int, ours: LocaleRules) -> date:
    if turn < 0:
        return today - timedelta((today.weekday() - number - 1) % 7 + 1)
    if turn > 0:
        return _week(today + timedelta(weeks=1), ours).first + timedelta((number - ours.first_day) % 7)
    return today + timedelta((number - today.weekday()) % 7)


def _month_day(today: date, number: int) -> Days | None:
    for turn in range(3):  # no two consecutive months lack the same day
        month = _month(today.year, today.month + turn)
        day = month.first + timedelta(number - 1)
        if today <= day <= month.last and number:
            return _one(day)
    return None


def _week(day: date, ours: LocaleRules) -> Days:
    first = day - timedelta((day.weekday() - ours.first_day) % 7)
    return Days(first, first + timedelta(6))


def _weekend(today: date, turn: int, ours: LocaleRules) -> Days:
    """The current or next weekend, or one that is `turn` weekends away."""
    begins, ends = ours.weekend
    length = timedelta((ends - begins) % 7)
    first = today - timedelta((today.weekday() - begins) % 7)
    first += timedelta(weeks=turn + (first + length < today))
    return Days(first, first + length)


def _month(year: int, month: int) -> Days:
    """A month; 13 is January of the next year, 0 is December of the year before."""
    year, index = year + (month - 1) // 12, (month - 1) % 12
    return Days(date(year, index + 1, 1), date(year + (index == 11), (index + 1) % 12 + 1, 1) - timedelta(1))


def _year(year: int) -> Days:
    return Days(date(year, 1, 1), date(year, 12, 31))


def _read(phrase: str, now: datetime, ours: LocaleRules) -> Days | None:
    """Ask dateparser: for an amount of time from now, else for a date."""
    counted = any(letter.isdigit() for letter in phrase)
    found, unit = _parsed(phrase, "relative-time", now, ours)
    if found is not None and counted:
        return _one(found)  # `in a week` is a day, `next week` is not
    if found is None:
        found, unit = _parsed(phrase, "absolute-time", now, ours)
        if found is not None and unit == "month":
            found = _named_month(found, phrase, counted, now)
    return None if found is None else _unit(found, unit, ours)


def _unit(day: date, unit: str | None, ours: LocaleRules) -> Days:
    if unit == "week":
        return _week(day, ours)
    if unit == "month":
        return _month(day.year, day.month)
    return _year(day.year) if unit == "year" else _one(day)


def _named_month(found: date, phrase: str, counted: bool, now: datetime) -> date | None:
    if not _MONTH.search(phrase):
        return None
    return found if counted else date(now.year + (found.month < now.month), found.month, 1)  # includes the current month


def _parsed(phrase: str, parser: str, now: datetime, ours: LocaleRules) -> tuple[date | None, str | None]:
    from dateparser.data.languages_info import language_order
    from dateparser.date import DateDataParser

    languages = [each for each in dict.fromkeys((ours.language, "en", "he")) if each in language_order]
    settings = {
        "PARSERS": [parser],
        "RELATIVE_BASE": now.replace(tzinfo=None),
        "TIMEZONE": "UTC",  # a clock without a zone, so that the machine's zone is never used
        "PREFER_DATES_FROM": "future",
        "DATE_ORDER": ours.date_order,
    }
    found = DateDataParser(languages=languages, use_given_order=True, settings=settings).get_date_data(phrase)
    return None if found.date_obj is None else found.date_obj.date(), found.period
