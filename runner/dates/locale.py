"""Locale rules for dates: first day of the week, weekend, order of day and month, names of the days.

Reads Unicode's locale data through Babel. Must not know: phrases, dates.
Invariant: an unknown locale gets the rules of American English; Babel is imported at first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from babel import Locale

FALLBACK = "en-US"
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SHORT_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class LocaleRules:
    """The date rules of a locale. Days of the week are numbers, Monday is 0."""

    language: str
    first_day: int
    weekend: tuple[int, int]
    """Its first and its last day."""
    date_order: str
    """`MDY`, `DMY` or `YMD`: how `1/2/2026` is read."""
    weekdays: Mapping[str, int]
    """Names of the days in the language, full and abbreviated, in lower case."""


@lru_cache(maxsize=256)
def locale_rules(locale: str) -> LocaleRules:
    """Read the rules of a BCP 47 tag. Its extension `u-fw` overrides the first day, as in `he-IL-u-fw-mon`."""
    tag, _, extension = locale.lower().replace("_", "-").partition("-u-")
    found = _found(tag)
    return LocaleRules(
        language=found.language,
        first_day=_overridden(extension, found.first_week_day),
        weekend=(found.weekend_start, found.weekend_end),
        date_order="".join(
            dict.fromkeys(letter for letter in found.date_formats["short"].pattern.upper() if letter in "DMY")
        ),
        weekdays=_weekdays(found),
    )


def _found(tag: str) -> Locale:
    """The locale of a tag, with a territory: a language alone gets the one with most speakers."""
    from babel import Locale, UnknownLocaleError
    from babel.core import get_global

    language = tag.partition("-")[0]
    likely = str(get_global("likely_subtags").get(language, "")).split("_")[-1]
    for candidate in (tag, f"{language}-{likely}"):
        try:
            found = Locale.parse(candidate, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
        if found.territory:
            return found
    return Locale.parse(FALLBACK, sep="-")


def _overridden(extension: str, first_day: int) -> int:
    _, _, value = f"-{extension}".partition("-fw-")
    return _SHORT_DAYS.index(value[:3]) if value[:3] in _SHORT_DAYS else first_day


def _weekdays(locale: Locale) -> dict[str, int]:
    widths = (locale.days[context][width] for context in ("format", "stand-alone") for width in ("abbreviated", "wide"))
    return {name.casefold().rstrip("."): number for names in widths for number, name in names.items()}
