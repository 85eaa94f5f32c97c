"""The samples of all series while they are being made.

Owns the bookkeeping of counters, gauges and resets, tick by tick; knows no story. Invariant: a series has one value for
each tick from its first to its last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from outrider_sre.promql import Series
from outrider_sre.times import format_time

Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Track:
    first_tick: int
    values: list[float] = field(default_factory=list)


class Ledger:
    """Series being written: `gauge` sets a value, `count` lets a counter grow."""

    def __init__(self, started_at: float, interval: float) -> None:
        self._started_at = started_at
        self._interval = interval
        self._tracks: dict[Key, _Track] = {}
        self._totals: dict[Key, float] = {}

    def gauge(self, tick: int, name: str, labels: dict[str, str], value: float) -> None:
        """The value of a gauge at this tick."""
        self._write(tick, _key(name, labels), value)

    def count(self, tick: int, name: str, labels: dict[str, str], growth: float) -> None:
        """Let a counter grow by so much until this tick."""
        key = _key(name, labels)
        self._totals[key] = round(self._totals.get(key, 0.0) + growth, 3)
        self._write(tick, key, self._totals[key])

    def open(self, name: str, labels: dict[str, str], value: float) -> None:
        """What a counter had already reached when the recording began."""
        self._totals[_key(name, labels)] = value

    def reset(self, pod: str) -> None:
        """A restarted process: its counters start again, but the cluster's own counters about it go on."""
        for name, labels in list(self._totals):
            if ("pod", pod) in labels and not name.startswith("kube_"):
                self._totals[name, labels] = 0.0

    def _write(self, tick: int, key: Key, value: float) -> None:
        track = self._tracks.setdefault(key, _Track(tick))
        track.values.append(int(value) if value == int(value) else value)

    def series(self, last_tick: int) -> Iterator[Series]:
        """Every series as a query sees it."""
        for (name, labels), track in self._tracks.items():
            ticks = range(track.first_tick, track.first_tick + len(track.values))
            times = tuple(self._started_at + tick * self._interval for tick in ticks)
            stale_at = times[-1] + self._interval if ticks[-1] < last_tick else None
            yield Series({"__name__": name, **dict(labels)}, times, tuple(track.values), stale_at)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every series as a line of `metrics.jsonl`, in a stable order."""
        for name, labels in sorted(self._tracks):
            track = self._tracks[name, labels]
            start = self._started_at + track.first_tick * self._interval
            yield {"name": name, "labels": dict(labels), "start": format_time(start), "values": track.values}


def _key(name: str, labels: dict[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))
