"""What the tools of the metrics server answer: the typed models that become structured content.

Owns names and types of the fields, which rehearsals and reports address; knows neither files nor tools.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

Number = float | Literal["NaN", "+Inf", "-Inf"]
"""JSON has no infinities and no NaN, so these three are written as Prometheus writes them: as text."""


class Sample(BaseModel):
    """One labelled value."""

    metric: dict[str, str]
    value: Number


class QueryAnswer(BaseModel):
    """The value at one moment, the highest first; a bare number has no labels. `note` says why there is none."""

    query: str
    time: str
    result_type: Literal["vector", "scalar"]
    total: int
    truncated: bool
    note: str | None
    result: list[Sample]


class Point(BaseModel):
    """One value at one moment."""

    ts: str
    value: Number


class Line(BaseModel):
    """One series over the window, with its extremes; moments without a value have no point."""

    metric: dict[str, str]
    first: Point
    last: Point
    lowest: Point
    highest: Point
    values: list[Point]


class RangeAnswer(BaseModel):
    """Series over a window, the one with the highest value first."""

    query: str
    start: str
    end: str
    step_seconds: float
    total: int
    truncated: bool
    note: str | None
    result: list[Line]


class SeriesAnswer(BaseModel):
    """The labels of matching series."""

    selector: str
    total: int
    truncated: bool
    series: list[dict[str, str]]


class MetricName(BaseModel):
    """One metric: its name, type, meaning and number of series."""

    name: str
    type: str
    help: str
    series: int


class MetricNamesAnswer(BaseModel):
    """Every metric there is."""

    metrics: list[MetricName]


class ActiveAlert(BaseModel):
    """One alert: labels, state, and since when its rule holds and it fires."""

    name: str
    state: Literal["pending", "firing"]
    severity: str
    labels: dict[str, str]
    annotations: dict[str, str]
    expression: str
    value: Number
    active_at: str
    fires_at: str


class AlertsAnswer(BaseModel):
    """Active alerts: critical before others, then the longest active first."""

    time: str
    alerts: list[ActiveAlert]
