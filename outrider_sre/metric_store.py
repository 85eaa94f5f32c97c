"""Reading the recorded series and finding them by selector.

Owns the file `metrics.jsonl` in memory; the query language is in `promql`. Knows no MCP. Invariant: a series that ends
before the recording does is stale from the next scrape on, as it would be in Prometheus.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from outrider_sre.errors import BrokenIncidentError
from outrider_sre.incident import Incident
from outrider_sre.promql import Series
from outrider_sre.promql.evaluator import matching
from outrider_sre.promql.syntax import Selector
from outrider_sre.times import parse_time


class MetricStore:
    """All series of one incident, by metric name."""

    def __init__(self, series: list[Series]) -> None:
        self._all = series
        self._by_name: dict[str, list[Series]] = {}
        for one in series:
            self._by_name.setdefault(one.labels["__name__"], []).append(one)

    def find(self, selector: Selector) -> list[Series]:
        """The series a selector matches; nearly every selector gives a name, which narrows the search at once."""
        named = [one.value for one in selector.matchers if one.label == "__name__" and one.operator == "="]
        return matching(self._by_name.get(named[0], []) if named else self._all, selector)

    def names(self) -> dict[str, int]:
        """Every metric name with its number of series."""
        return {name: len(series) for name, series in sorted(self._by_name.items())}


@cache
def open_metrics(incident: Incident) -> MetricStore:
    """Read the series of the incident; done once, on the first question."""
    path = incident.file("metrics.jsonl")
    try:
        with path.open(encoding="utf-8") as file:
            return MetricStore([_series(json.loads(line), incident) for line in file])
    except (OSError, ValueError, KeyError, IndexError) as error:
        hint = "write the incident again with `write_incident`"
        raise BrokenIncidentError(f"the metrics file `{Path(path)}` is damaged: {error}", hint) from None


def _series(row: dict[str, Any], incident: Incident) -> Series:
    interval = incident.interval_seconds
    start = parse_time(row["start"], 0.0)
    times = tuple(start + number * interval for number in range(len(row["values"])))
    ends_early = times[-1] + interval <= incident.ended_at
    return Series(
        labels={"__name__": row["name"], **row["labels"]},
        times=times,
        values=tuple(float(value) for value in row["values"]),
        stale_at=times[-1] + interval if ends_early else None,
    )
