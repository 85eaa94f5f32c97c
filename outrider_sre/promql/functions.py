"""The arithmetic behind `rate`, `increase` and `histogram_quantile`: numbers in, a number out.

Knows no labels and no syntax. Invariant: agrees with Prometheus, including counter resets, extrapolation to the edges
of the window, and interpolation inside a bucket.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_EDGE = 1.1
"""A gap to the edge of the window of up to 1.1 mean distances counts as the series reaching that edge."""


def increase(times: Sequence[float], values: Sequence[float], start: float, end: float) -> float | None:
    """How much a counter grew inside the window, extrapolated to its edges; None with fewer than two samples."""
    if len(times) < 2:
        return None

    grown = values[-1] - values[0]
    # A counter that falls was reset: what it had reached before is added back.
    grown += sum(before for before, after in pairwise(values) if after < before)
    sampled = times[-1] - times[0]
    distance = sampled / (len(times) - 1)
    to_start = _reach(times[0] - start, distance)
    to_end = _reach(end - times[-1], distance)
    if grown > 0 and values[0] >= 0:
        # A counter cannot have been below zero, so it is never extrapolated to before it was zero.
        to_start = min(to_start, sampled * values[0] / grown)

    return grown * (sampled + to_start + to_end) / sampled


def _reach(gap: float, distance: float) -> float:
    return gap if gap < distance * _EDGE else distance / 2


def quantile(wanted: float, buckets: Sequence[tuple[float, float]]) -> float:
    """The value below which the share `wanted` of the observations lie, from (upper bound, cumulative count) pairs."""
    if math.isnan(wanted):
        return math.nan
    if wanted < 0 or wanted > 1:
        return math.copysign(math.inf, wanted)

    ordered = _cumulative(buckets)
    if len(ordered) < 2 or ordered[-1][0] != math.inf or not ordered[-1][1] > 0:
        return math.nan

    rank = wanted * ordered[-1][1]
    index = next(index for index, (_, count) in enumerate(ordered) if count >= rank)
    if index == len(ordered) - 1:
        return ordered[-2][0]

    upper, count = ordered[index]
    if index == 0 and upper <= 0:
        return upper

    lower, before = (0.0, 0.0) if index == 0 else ordered[index - 1]
    inside = count - before
    # A rank of zero lands in an empty first bucket: its lower bound is the answer.
    return lower if inside == 0 else lower + (upper - lower) * (rank - before) / inside


def _cumulative(buckets: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Sorted by bound, equal bounds merged, and never falling: rates of buckets scraped apart may differ slightly."""
    merged: dict[float, float] = {}
    for bound, count in buckets:
        merged[bound] = merged.get(bound, 0.0) + count

    ordered: list[tuple[float, float]] = []
    highest = 0.0
    for bound in sorted(merged):
        highest = max(highest, merged[bound])
        ordered.append((bound, highest))

    return ordered
