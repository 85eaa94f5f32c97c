"""Moments and durations as people and models write them, turned into seconds since the epoch and back.

Owns the two grammars (ISO-8601 times with an optional shift, and durations such as `5m`). Knows nothing of incidents:
the caller passes `now`, because a recorded incident must never look at the wall clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from outrider_sre.errors import BadRequestError

TIME_HINT = "write ISO-8601 UTC such as `2026-09-17T14:00:00Z`, or `now`, either followed by a shift such as `-30m`"
DURATION_HINT = "write a number and a unit out of `ms`, `s`, `m`, `h`, `d`, for example `5m` or `1h30m`"

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"\d+(?:ms|[smhd])"
_DURATION = re.compile(rf"(?:{_PART})+")
_SHIFTED = re.compile(rf"(?P<moment>.+?)(?:(?P<sign>[+-])(?P<shift>(?:{_PART})+))?")


def parse_duration(text: str) -> float:
    """Seconds in `90s`, `5m`, `1h30m`; zero is refused because no window or step can be empty."""
    stripped = text.strip()
    if not _DURATION.fullmatch(stripped):
        raise BadRequestError(f"`{text}` is not a duration", DURATION_HINT)

    parts = re.findall(r"(\d+)(ms|[smhd])", stripped)
    seconds = sum(int(number) * _SECONDS[unit] for number, unit in parts)
    if seconds <= 0:
        raise BadRequestError(f"the duration `{text}` is empty", DURATION_HINT)

    return seconds


def parse_time(text: str, now: float) -> float:
    """Seconds since the epoch for an ISO-8601 time or `now`, either with a shift such as `-30m` behind it."""
    shifted = _SHIFTED.fullmatch(text.strip())
    if shifted is None:
        raise BadRequestError("the time is empty", TIME_HINT)

    moment = now if shifted["moment"] == "now" else _parse_moment(shifted["moment"].strip())
    if shifted["shift"] is None:
        return moment

    shift = parse_duration(shifted["shift"])
    return moment + shift if shifted["sign"] == "+" else moment - shift


def parse_window(start: str | None, end: str | None, now: float, default_seconds: float) -> tuple[float, float]:
    """The window asked for; without an end it ends now, without a start it is `default_seconds` long."""
    last = now if end is None else parse_time(end, now)
    first = last - default_seconds if start is None else parse_time(start, now)
    if first >= last:
        raise BadRequestError(
            f"the window is empty: it starts at {format_time(first)} and ends at {format_time(last)}",
            "give a `start` before the `end`",
        )

    return first, last


def format_time(seconds: float) -> str:
    """ISO-8601 UTC; milliseconds are written only where the moment has any."""
    moment = datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC)
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def format_log_time(seconds: float) -> str:
    """ISO-8601 UTC, always with milliseconds, so that log times sort as text too."""
    moment = datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _parse_moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequestError(f"`{text}` is not a time", TIME_HINT) from None

    # A time without a zone is read as UTC: everything in a recording is.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.timestamp()
