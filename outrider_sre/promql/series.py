"""Recorded samples, and how a moment or a window sees them.

Owns the look-back and staleness rules; knows no query language. Invariant: times strictly increase.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

LOOKBACK_SECONDS = 300.0
"""How old the newest sample may be and still count as the value now."""


@dataclass(frozen=True, slots=True)
class Point:
    """One labelled value at the moment asked for."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """One series; `stale_at` is when its target was found gone, which ends it at once."""

    labels: Mapping[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]
    stale_at: float | None = None

    def at(self, moment: float) -> float | None:
        """The newest value, or None when it is too old or the target is gone."""
        index = bisect_right(self.times, moment) - 1
        if index < 0 or moment - self.times[index] >= LOOKBACK_SECONDS:
            return None
        if self.stale_at is not None and moment >= self.stale_at:
            return None

        return self.values[index]

    def window(self, moment: float, seconds: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Times and values after `moment - seconds`, up to and with `moment`."""
        first = bisect_right(self.times, moment - seconds)
        last = bisect_right(self.times, moment)
        return self.times[first:last], self.values[first:last]
