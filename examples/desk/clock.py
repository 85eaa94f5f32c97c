"""The desk's clock: now, in the time zone of the person whose desk it is, and the times that people write.

Owns `DESK_TIMEZONE` (an IANA name, else UTC) and `DESK_NOW` (a fixed moment, for tests). Invariant: what is stored is in
UTC and sorts by time, what is shown is in the person's time zone.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from examples.desk.errors import DeskError

HINT = "write ISO-8601, such as `2026-01-30T09:00:00+02:00`; without an offset it is the user's local time"


def zone() -> ZoneInfo:
    """The person's time zone."""
    name = os.environ.get("DESK_TIMEZONE") or "UTC"
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise DeskError(f"`DESK_TIMEZONE` is `{name}`, and there is no such time zone", "set it to an IANA name") from error


def now() -> datetime:
    """The present moment where the person is."""
    fixed = os.environ.get("DESK_NOW")
    return datetime.now(zone()) if not fixed else moment(fixed)


def moment(text: str, *, until: bool = False) -> datetime:
    """A moment that somebody wrote. A date alone is its first second, or with `until` its last one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise DeskError(f"`{text[:40]}` is not a time", HINT) from error
    if until and len(text) <= len("2026-01-30"):
        found = datetime.combine(found, time(23, 59, 59))
    return found.replace(tzinfo=zone()) if found.tzinfo is None else found.astimezone(zone())


def window(time_min: str, time_max: str) -> tuple[datetime, datetime]:
    """From a moment to a later one."""
    first, last = moment(time_min), moment(time_max, until=True)
    if last < first:
        raise DeskError("`time_max` is before `time_min`", "exchange them")
    return first, last


def stored(at: datetime) -> str:
    """A moment as it is stored."""
    return at.astimezone(UTC).isoformat(timespec="seconds")


def shown(text: str) -> str:
    """A stored moment as it is shown."""
    return datetime.fromisoformat(text).astimezone(zone()).isoformat(timespec="seconds")
