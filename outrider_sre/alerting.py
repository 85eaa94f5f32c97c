"""Alerting rules over recorded series: what fires at a moment, and since when.

Owns how a rule becomes an alert; both the recorder, which needs to know when the story's alert fired, and the metrics
server use it. Knows no files and no MCP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from outrider_sre.incident import Rule
from outrider_sre.promql import Vector, evaluate, parse
from outrider_sre.promql.evaluator import NAME, Find

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule active for one set of labels."""

    rule: Rule
    labels: Mapping[str, str]
    value: float
    active_at: float
    fires_at: float

    def state(self, moment: float) -> Literal["pending", "firing"]:
        """`firing` once the rule has held long enough, `pending` before."""
        return "firing" if moment >= self.fires_at else "pending"


@dataclass(frozen=True, slots=True)
class Clock:
    """When rules are evaluated: every `interval` seconds from `start`."""

    start: float
    interval: float

    def ticks(self, until: float) -> Iterator[float]:
        """The evaluations up to a moment."""
        for number in range(int((until - self.start) // self.interval) + 1):
            yield self.start + number * self.interval


def active_alerts(rule: Rule, find: Find, clock: Clock, moment: float) -> list[Alert]:
    """What the rule says at the moment, after watching it from the clock's start."""
    expression = parse(rule.expression)
    since: dict[Labels, float] = {}
    values: dict[Labels, float] = {}
    for tick in clock.ticks(moment):
        result = evaluate(expression, find, tick)
        samples = result.samples if isinstance(result, Vector) else ()
        values = {_key(sample.labels): sample.value for sample in samples}
        # A rule that stops holding starts again from nothing.
        since = {key: since.get(key, tick) for key in values}

    return [
        Alert(rule, {**dict(key), "alertname": rule.alert, **rule.labels}, values[key], at, at + rule.hold_seconds)
        for key, at in since.items()
    ]


def _key(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted((label, text) for label, text in labels.items() if label != NAME))
