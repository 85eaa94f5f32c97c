"""Date phrases that dateparser lacks or reads differently, in English and Hebrew.

Owns the words and their meanings, as values without a date: `next friday` is a weekday and a turn. Must not know: today,
the clock, how weeks are counted. Invariant: a phrase is understood as a whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Unit = Literal["week", "weekend", "month", "year"]


@dataclass(frozen=True, slots=True)
class Day:
    """A number of days from today."""

    offset: int


@dataclass(frozen=True, slots=True)
class Weekday:
    """A day of the week, Monday is 0. Turn 0: the first from today on; 1: that of next week; -1: the last before today."""

    number: int
    turn: int


@dataclass(frozen=True, slots=True)
class MonthDay:
    """A day of the month, the first from today on."""

    number: int


@dataclass(frozen=True, slots=True)
class Period:
    """A week, weekend, month or year, `turn` units from the current one."""

    unit: Unit
    turn: int


@dataclass(frozen=True, slots=True)
class Span:
    """A number of days that begin (positive) or end (negative) with today."""

    days: int


Meaning = Day | Weekday | MonthDay | Period | Span

_TURNS = {
    **dict.fromkeys(("this", "current", "coming", "upcoming", "הזה", "הזאת", "הקרוב", "הקרובה", "הנוכחי", "הנוכחית"), 0),
    **dict.fromkeys(("next", "following", "הבא", "הבאה"), 1),
    **dict.fromkeys(("last", "previous", "שעבר", "שעברה", "האחרון", "האחרונה", "הקודם", "הקודמת"), -1),
}
_DAYS = {"today": 0, "tonight": 0, "tomorrow": 1, "yesterday": -1, "day after tomorrow": 2, "day before yesterday": -2} | {
    **dict.fromkeys(("היום", "הערב", "הלילה"), 0),
    "מחר": 1,
    "מחרתיים": 2,
    "אתמול": -1,
    "שלשום": -2,
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            ("monday", "יום שני"),
            ("tuesday", "יום שלישי"),
            ("wednesday", "יום רביעי"),
            ("thursday", "יום חמישי"),
            ("friday", "יום שישי"),
            ("saturday", "יום שבת", "שבת"),
            ("sunday", "יום ראשון"),
        )
    )
    for name in names
}
_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("week", "השבוע", "שבוע"), "week"),
    **dict.fromkeys(("weekend", "סוף השבוע", "סוף שבוע"), "weekend"),
    **dict.fromkeys(("month", "החודש", "חודש"), "month"),
    **dict.fromkeys(("year", "השנה", "שנה"), "year"),
}
_SIDES = {"next": 1, "coming": 1, "last": -1, "past": -1, "previous": -1}
_DEFINITE = {"השבוע", "סוף השבוע", "החודש", "השנה"}
"""Without a turn these mean the current one."""
_NUMBERS = {
    word: number
    for number, words in enumerate(
        (
            *("a an one אחד אחת", "two שני שתי", "three שלושה שלוש", "four ארבעה ארבע", "five חמישה חמש"),
            *("six שישה שש", "seven שבעה שבע", "eight שמונה", "nine תשעה תשע", "ten עשרה עשר"),
        ),
        start=1,
    )
    for word in words.split()
}


def _any(words: Iterable[str], *, english: bool | None = None) -> str:
    chosen = [word for word in words if english is None or word.isascii() is english]
    return "|".join(sorted(chosen, key=len, reverse=True))


_PREFIX = "[ובלמ]{0,2}"
"""In Hebrew `and`, `in`, `to` and `from` are letters before the word."""
_TURN, _HEBREW_TURN = _any(_TURNS, english=True), _any(_TURNS, english=False)
_COUNT = rf"\d{{1,3}}|{_any(_NUMBERS)}"
_INDEFINITE = _any(set(_UNITS) - _DEFINITE, english=False)

_DAY = rf"(?:the |{_PREFIX})?(?P<day>{_any(_DAYS)})"
_WEEKDAY = rf"(?:(?:the )?(?P<turn>{_TURN}) )?(?P<name>{_any(_WEEKDAYS, english=True)})"
_HEBREW_WEEKDAY = rf"{_PREFIX}(?P<name>{_any(_WEEKDAYS, english=False)})(?: (?P<turn>{_HEBREW_TURN}))?"
_PERIOD = rf"(?:the )?(?P<turn>{_TURN}) (?P<unit>{_any(_UNITS, english=True)})"
_HEBREW_PERIOD = (
    rf"{_PREFIX}(?P<unit>{_any(_DEFINITE)}|(?:{_INDEFINITE})(?= (?:{_HEBREW_TURN})))(?: (?P<turn>{_HEBREW_TURN}))?"
)
_SPAN = rf"(?:the )?(?P<side>{_any(_SIDES)}) (?P<count>{_COUNT}) (?P<unit>day|week)s?"
_MONTH_DAY = r"the (?P<number>\d{1,2})(?:st|nd|rd|th)"

_RULES: tuple[tuple[str, Callable[[re.Match[str]], Meaning]], ...] = (
    (_DAY, lambda match: Day(_DAYS[match["day"]])),
    (_WEEKDAY, lambda match: Weekday(_WEEKDAYS[match["name"]], _turn(match))),
    (_HEBREW_WEEKDAY, lambda match: Weekday(_WEEKDAYS[match["name"]], _turn(match))),
    (_PERIOD, lambda match: Period(_UNITS[match["unit"]], _turn(match))),
    (_HEBREW_PERIOD, lambda match: Period(_UNITS[match["unit"]], _turn(match))),
    (_SPAN, lambda match: Span(int(match["count"]) * _SIDES[match["side"]] * (7 if match["unit"] == "week" else 1))),
    (_MONTH_DAY, lambda match: MonthDay(int(match["number"]))),
)

_COUNTED = rf"in (?:{_COUNT}) (?:day|week|month|year)s?|(?:{_COUNT}) (?:day|week|month|year)s? ago"
_HEBREW_COUNTED = (
    rf"(?:ב?עוד|לפני) (?:(?:{_COUNT}) )?"
    "(?:יומיים|ימים|יום|שבועיים|שבועות|שבוע|חודשיים|חודשים|חודש|שנתיים|שנים|שנה)"
)

RELATIVE = "|".join(
    re.sub(r"\?P<\w+>", "?:", each).replace(" ", r"\s+")
    for each in (_DAY, _WEEKDAY, _HEBREW_WEEKDAY, _PERIOD, _HEBREW_PERIOD, _SPAN, _COUNTED, _HEBREW_COUNTED)
)
"""Matches relative phrases in a text, without boundaries: only phrases that can hardly mean anything else."""
WEEKDAY = _any(_WEEKDAYS).replace(" ", r"\s+")
"""Matches the days of the week in a text."""

_LEADING = r"(?:on|for|by|until|till|from|since|during|over|עד|במשך) "
_TIME_OF_DAY = (
    r",? (?:(?:at|around) .*|(?:in the )?(?:early |late )?(?:morning|afternoon|evening|night)"
    r"|\d{1,2}(?::\d\d(?: ?[ap]m)?| ?[ap]m)|בשעה .*|ב-?\d{1,2}:\d\d|בבוקר|בצהריים|אחר הצהריים|בערב|בלילה)$"
)
_AMOUNT = rf"\b({_any(_NUMBERS, english=True)})(?= (?:day|week|month|year)s?\b)"
_HEBREW_AMOUNT = rf"(?<=עוד |פני )({_any(_NUMBERS, english=False)}|(?=(?:יום|שבוע|חודש|שנה)$)) ?"
_DUALS = {"יומיים": "2 ימים", "שבועיים": "2 שבועות", "חודשיים": "2 חודשים", "שנתיים": "2 שנים"}


def folded(phrase: str) -> str:
    """A phrase in normal form: no case, extra spaces, preposition or time of day; amounts as digits."""
    text = " ".join(phrase.replace("׳", "'").replace("’", "'").casefold().split()).strip(" .,;:!?")
    text = re.sub(_TIME_OF_DAY, "", re.sub(rf"^{_LEADING}", "", text)).removesuffix("'s")
    text = re.sub(_AMOUNT, lambda match: str(_NUMBERS[match[0]]), text)
    text = re.sub(_any(_DUALS), lambda match: _DUALS[match[0]], text)
    return re.sub(_HEBREW_AMOUNT, lambda match: f"{_NUMBERS.get(match[1], 1)} ", text)


def understand(phrase: str, weekdays: Mapping[str, int]) -> Meaning | None:
    """The meaning of a normalised phrase, given further names of the days; None if this module does not know it."""
    for pattern, meaning in _RULES:
        if match := re.fullmatch(pattern, phrase):  # compiled at first use, not at import
            return meaning(match)
    turn, _, name = ("", "", phrase) if phrase in weekdays else phrase.rpartition(" ")
    if name in weekdays and (not turn or turn in _TURNS):
        return Weekday(weekdays[name], _TURNS.get(turn, 0))
    return None


def _turn(match: re.Match[str]) -> int:
    return _TURNS[match["turn"]] if match["turn"] else 0
