"""Stored times: UTC, ISO-8601, microseconds, fixed width, so that they sort as text. And the clock of deadlines."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache

loop_time = time.monotonic
"""Seconds on the clock of the event loop. asyncio's loops take this clock; anyio's function for it looks up the loop first,
which costs ten times as much."""


@lru_cache(maxsize=4)
def _second(whole: int) -> str:
    """The part of a stored time that a whole second shares; cached, because thousands of times are written."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def stamp(moment: datetime | None = None) -> str:
    """The stored form of a moment (now, if none is given)."""
    if moment is None:
        microseconds = time.time_ns() // 1000
        return f"{_second(microseconds // 1_000_000)}.{microseconds % 1_000_000:06d}Z"
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(stamped: str) -> datetime:
    """The moment of a stored time."""
    return datetime.fromisoformat(stamped.replace("Z", "+00:00"))


@lru_cache(maxsize=1_024)
def _minute(stamped: str) -> float:
    """The minute of a stored time in seconds since 1970; cached, because a tree has tens of thousands of times."""
    return moment(f"{stamped}:00Z").timestamp()


def seconds_at(stamped: str) -> float:
    """A stored time in seconds since 1970."""
    return _minute(stamped[:16]) + float(stamped[17:-1])
