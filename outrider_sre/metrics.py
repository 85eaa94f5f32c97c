"""The metrics server: the recorded series over MCP, in Prometheus's manner.

Owns the tools; the shape of their answers is in `metric_answers`, the language in `promql`, the series in
`metric_store`. Invariant: every answer is bounded and says whether something was left out. Start it with
`python -P -m outrider_sre.metrics`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated

from mcp.server import MCPServer
from pydantic import Field

from outrider_sre.alerting import Clock, active_alerts
from outrider_sre.errors import BadRequestError, NotFoundError
from outrider_sre.incident import Incident, incident_folder, open_incident
from outrider_sre.metric_answers import (
    ActiveAlert,
    AlertsAnswer,
    Line,
    MetricName,
    MetricNamesAnswer,
    Number,
    Point,
    QueryAnswer,
    RangeAnswer,
    Sample,
    SeriesAnswer,
)
from outrider_sre.metric_store import MetricStore, open_metrics
from outrider_sre.promql import Scalar, Value, evaluate, parse
from outrider_sre.promql.syntax import Selector
from outrider_sre.promql.tokens import ACCEPTED
from outrider_sre.serving import LOG_LEVEL, READ_ONLY, explained, limited, serve
from outrider_sre.times import format_time, parse_duration, parse_time, parse_window

WINDOW = 3600.0
SERIES = 100
POINTS = 300
ALL_POINTS = 3000

Query = Annotated[str, Field(description=f"PromQL; {ACCEPTED}")]
Moment = Annotated[str | None, Field(description="ISO-8601 UTC or `now`, with a shift if need be: `now-30m`")]


server = MCPServer(
    "sre-metrics",
    log_level=LOG_LEVEL,
    instructions="Recorded metrics, queried with a part of PromQL. `metric_names` says what there is.",
)


def _opened() -> tuple[Incident, MetricStore]:
    incident = open_incident(incident_folder())
    return incident, open_metrics(incident)


@server.tool(annotations=READ_ONLY)
async def query(query: Query, time: Moment = None) -> QueryAnswer:
    """Evaluate a PromQL query at one moment (default: now, the end of the recording). Highest value first."""
    with explained():
        incident, store = _opened()
        moment = incident.now if time is None else parse_time(time, incident.now)
        value = evaluate(parse(query), store.find, moment)
    samples = _samples(value)
    return QueryAnswer(
        query=query,
        time=format_time(moment),
        result_type="scalar" if isinstance(value, Scalar) else "vector",
        total=len(samples),
        truncated=len(samples) > SERIES,
        note=None if samples else _note(query, incident, store),
        result=[Sample(metric=labels, value=_number(number)) for labels, number in samples[:SERIES]],
    )


@server.tool(annotations=READ_ONLY)
async def query_range(
    query: Query,
    start: Moment = None,
    end: Moment = None,
    step: Annotated[str, Field(description="distance between points, such as `30s` or `5m`")] = "1m",
) -> RangeAnswer:
    """Evaluate a PromQL query at every step of a window (default: the last hour).

    A comparison such as `... > 0.05` keeps only the moments at which it holds: `first.ts` is then when it began.
    """
    with explained():
        incident, store = _opened()
        first, last = parse_window(start, end, incident.now, WINDOW)
        width = parse_duration(step)
        if (last - first) / width > POINTS:
            hint = f"use a step of at least `{math.ceil((last - first) / POINTS)}s` or a shorter window"
            raise BadRequestError(f"the window has more than {POINTS} steps", hint)
        expression = parse(query)
        moments = [first + number * width for number in range(int((last - first) / width) + 1)]
        answers = [(moment, _samples(evaluate(expression, store.find, moment))) for moment in moments]
    lines = _lines(answers)
    shown = lines[: limited(ALL_POINTS // len(moments), SERIES)]
    return RangeAnswer(
        query=query,
        start=format_time(first),
        end=format_time(last),
        step_seconds=width,
        total=len(lines),
        truncated=len(shown) < len(lines),
        note=None if lines else _note(query, incident, store),
        result=shown,
    )


@server.tool(annotations=READ_ONLY)
async def series(
    selector: Annotated[str, Field(description='a PromQL selector: http_requests_total{service="checkout"}')],
) -> SeriesAnswer:
    """List the label sets of all recorded series that a selector matches, at any time of the recording."""
    with explained():
        _, store = _opened()
        parsed = parse(selector)
        if not isinstance(parsed, Selector):
            raise BadRequestError(f"`{selector}` is not a plain selector", 'write only `name{label="value"}`')
        found = [dict(one.labels) for one in store.find(parsed)]
    return SeriesAnswer(selector=selector, total=len(found), truncated=len(found) > SERIES, series=found[:SERIES])


@server.tool(annotations=READ_ONLY)
async def metric_names() -> MetricNamesAnswer:
    """List every metric with its type, meaning and number of series. Histograms are queried as `NAME_bucket`."""
    with explained():
        incident, store = _opened()
    names: list[MetricName] = []
    for name, count in store.names().items():
        family = next((name.removesuffix(end) for end in ("_bucket", "_sum", "_count") if name.endswith(end)), name)
        about = incident.metric_types.get(name) or incident.metric_types.get(family) or {"type": "unknown", "help": ""}
        names.append(MetricName(name=name, type=about["type"], help=about["help"], series=count))
    return MetricNamesAnswer(metrics=names)


@server.tool(annotations=READ_ONLY)
async def alerts(
    time: Moment = None,
    name: Annotated[str | None, Field(description="only the alert of this name")] = None,
) -> AlertsAnswer:
    """List the alerts that are pending or firing at a moment (default: now), with their rule and since when."""
    with explained():
        incident, store = _opened()
        moment = incident.now if time is None else parse_time(time, incident.now)
        rules = [rule for rule in incident.rules if name in (None, rule.alert)]
        if not rules:
            known = ", ".join(rule.alert for rule in incident.rules)
            raise NotFoundError(f"there is no alert `{name}`", f"there are: {known}")
        clock = Clock(incident.started_at, incident.interval_seconds)
        found = [alert for rule in rules for alert in active_alerts(rule, store.find, clock, moment)]
    shown = [
        ActiveAlert(
            name=alert.rule.alert,
            state=alert.state(moment),
            severity=alert.labels.get("severity", ""),
            labels=dict(alert.labels),
            annotations=alert.rule.annotations,
            expression=alert.rule.expression,
            value=_number(alert.value),
            active_at=format_time(alert.active_at),
            fires_at=format_time(alert.fires_at),
        )
        for alert in found
    ]
    shown.sort(key=lambda alert: (alert.severity != "critical", alert.active_at))
    return AlertsAnswer(time=format_time(moment), alerts=shown)


def _note(query: str, incident: Incident, store: MetricStore) -> str:
    """Why there is no result: an unknown metric, or simply no value that qualifies."""
    names = store.names()
    for name in re.findall(r"[A-Za-z_:][\w:]*", query):
        close = get_close_matches(name, names, n=3, cutoff=0.8)
        if close and name not in names:
            return f"there is no metric `{name}`; did you mean {', '.join(f'`{one}`' for one in close)}?"

    span = f"{format_time(incident.started_at)} to {format_time(incident.ended_at)}"
    return f"no series has a value that qualifies; `metric_names` lists the metrics, the recording goes from {span}"


Labelled = list[tuple[dict[str, str], float]]


def _samples(value: Value) -> Labelled:
    if isinstance(value, Scalar):
        return [({}, value.value)]

    samples = [(dict(sample.labels), sample.value) for sample in value.samples]
    return sorted(samples, key=lambda sample: (math.isnan(sample[1]), -sample[1], sorted(sample[0].items())))


def _lines(answers: Iterable[tuple[float, Labelled]]) -> list[Line]:
    tracks: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for moment, samples in answers:
        for labels, value in samples:
            tracks.setdefault(tuple(sorted(labels.items())), []).append((moment, value))

    lines: list[tuple[float, Line]] = []
    for key, track in tracks.items():
        comparable = [point for point in track if not math.isnan(point[1])] or track
        highest = max(comparable, key=lambda point: point[1])
        line = Line(
            metric=dict(key),
            first=_point(track[0]),
            last=_point(track[-1]),
            lowest=_point(min(comparable, key=lambda point: point[1])),
            highest=_point(highest),
            values=[_point(point) for point in track],
        )
        lines.append((-math.inf if math.isnan(highest[1]) else highest[1], line))

    return [line for _, line in sorted(lines, key=lambda pair: -pair[0])]


def _point(pair: tuple[float, float]) -> Point:
    return Point(ts=format_time(pair[0]), value=_number(pair[1]))


def _number(value: float) -> Number:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"

    # Six significant digits tell everything a reader can use and keep the answer short.
    return float(f"{value:.6g}") if abs(value) < 1e6 else round(value)


def main() -> None:
    """Serve over stdio."""
    serve(server)


if __name__ == "__main__":
    main()
