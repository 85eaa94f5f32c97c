"""What a parsed query is worth at one moment.

Owns the meaning of every node of `syntax`; the numbers come from `functions`, the samples from `series`. Knows no text
and no tools. Invariant: no two samples of a vector have the same labels.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from outrider_sre.matchers import all_match
from outrider_sre.promql.functions import increase, quantile
from outrider_sre.promql.series import Point, Series
from outrider_sre.promql.syntax import (
    Aggregation,
    Arithmetic,
    Comparison,
    Expression,
    Kind,
    Number,
    Quantile,
    RangeSelector,
    Rate,
    Selector,
)
from outrider_sre.promql.tokens import refusal

NAME = "__name__"

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": python.eq,
    "!=": python.ne,
    ">": python.gt,
    "<": python.lt,
    ">=": python.ge,
    "<=": python.le,
}


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number."""

    value: float


@dataclass(frozen=True, slots=True)
class Vector:
    """Samples with distinct labels."""

    samples: tuple[Point, ...]


Value = Scalar | Vector
Find = Callable[[Selector], Iterable[Series]]
"""Where series come from: given a selector, every recorded series it matches."""


def evaluate(expression: Expression, find: Find, moment: float) -> Value:
    """The value of the expression at `moment`, over the series that `find` knows."""
    match expression:
        case Number(value):
            return Scalar(value)
        case Selector():
            return _select(expression, find, moment)
        case Rate():
            return _rate(expression, find, moment)
        case Quantile():
            wanted = _scalar(expression.quantile, find, moment)
            return _quantile(wanted, _vector(expression.argument, find, moment))
        case Aggregation():
            return _aggregate(expression, _vector(expression.argument, find, moment))
        case Comparison():
            return _compare(expression, find, moment)
        case Arithmetic():
            return _calculate(expression, find, moment)
        case RangeSelector():
            raise refusal("a range such as `[5m]` must be inside `rate(...)` or `increase(...)`")


def matching(series: Iterable[Series], selector: Selector) -> list[Series]:
    """Those series that satisfy the selector's matchers."""
    return [one for one in series if all_match(selector.matchers, one.labels)]


def _vector(expression: Expression, find: Find, moment: float) -> tuple[Point, ...]:
    value = evaluate(expression, find, moment)
    return value.samples if isinstance(value, Vector) else ()


def _scalar(expression: Expression, find: Find, moment: float) -> float:
    value = evaluate(expression, find, moment)
    return value.value if isinstance(value, Scalar) else math.nan


def _select(selector: Selector, find: Find, moment: float) -> Vector:
    found = ((series.labels, series.at(moment)) for series in find(selector))
    return Vector(tuple(Point(labels, value) for labels, value in found if value is not None))


def _rate(rate: Rate, find: Find, moment: float) -> Vector:
    seconds = rate.argument.seconds
    samples: list[Point] = []
    for series in find(rate.argument.selector):
        times, values = series.window(moment, seconds)
        grown = increase(times, values, moment - seconds, moment)
        if grown is not None:
            samples.append(Point(_nameless(series.labels), grown / seconds if rate.per_second else grown))

    return _distinct(samples)


def _quantile(wanted: float, samples: tuple[Point, ...]) -> Vector:
    histograms: dict[frozenset[tuple[str, str]], list[tuple[float, float]]] = {}
    for sample in samples:
        bound = _bound(sample.labels.get("le"))
        if bound is None:
            continue  # Not a bucket: Prometheus passes over it in silence, too.
        rest = frozenset((label, text) for label, text in sample.labels.items() if label not in ("le", NAME))
        histograms.setdefault(rest, []).append((bound, sample.value))

    return Vector(tuple(Point(dict(sorted(labels)), quantile(wanted, b)) for labels, b in histograms.items()))


def _bound(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _aggregate(aggregation: Aggregation, samples: tuple[Point, ...]) -> Vector:
    groups: dict[tuple[tuple[str, str], ...], list[float]] = {}
    for sample in samples:
        key = tuple((label, sample.labels[label]) for label in sorted(set(aggregation.by)) if sample.labels.get(label))
        groups.setdefault(key, []).append(sample.value)

    return Vector(tuple(Point(dict(key), _combine(aggregation.operator, values)) for key, values in groups.items()))


def _combine(operator: str, values: list[float]) -> float:
    if operator == "max":
        numbers = [value for value in values if not math.isnan(value)]
        return max(numbers, default=math.nan)

    total = _total(values)
    return total / len(values) if operator == "avg" else total


def _total(values: list[float]) -> float:
    """An exact sum, the same in every version of Python, which the built-in `sum` of floats is not."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        # Too large, or infinities of both signs: plain addition answers with an infinity or NaN instead.
        return sum(values)


def _compare(comparison: Comparison, find: Find, moment: float) -> Vector:
    holds = _COMPARE[comparison.operator]
    if comparison.left.kind is Kind.SCALAR:
        number = _scalar(comparison.left, find, moment)
        kept = [one for one in _vector(comparison.right, find, moment) if holds(number, one.value)]
    else:
        number = _scalar(comparison.right, find, moment)
        kept = [one for one in _vector(comparison.left, find, moment) if holds(one.value, number)]

    return Vector(tuple(kept))


def _calculate(arithmetic: Arithmetic, find: Find, moment: float) -> Value:
    sign, left, right = arithmetic.operator, arithmetic.left, arithmetic.right
    if arithmetic.kind is Kind.SCALAR:
        return Scalar(calculate(sign, _scalar(left, find, moment), _scalar(right, find, moment)))

    if left.kind is Kind.SCALAR:
        number = _scalar(left, find, moment)
        results = [(one, calculate(sign, number, one.value)) for one in _vector(right, find, moment)]
    else:
        number = _scalar(right, find, moment)
        results = [(one, calculate(sign, one.value, number)) for one in _vector(left, find, moment)]

    return _distinct([Point(_nameless(one.labels), value) for one, value in results])


def calculate(operator: str, left: float, right: float) -> float:
    """Arithmetic as floating-point hardware does it: no exceptions, but infinities and NaN."""
    try:
        match operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left / right
            case "%":
                return math.fmod(left, right)
            case _:
                return math.pow(left, right)
    except ZeroDivisionError:
        sign = math.copysign(1.0, left) * math.copysign(1.0, right)
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, sign)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.inf if operator == "^" and left == 0 else math.nan


def _nameless(labels: Mapping[str, str]) -> dict[str, str]:
    return {label: text for label, text in labels.items() if label != NAME}


def _distinct(samples: list[Point]) -> Vector:
    seen: set[frozenset[tuple[str, str]]] = set()
    for sample in samples:
        key = frozenset(sample.labels.items())
        if key in seen:
            raise refusal("the result would hold the same labels twice; select one metric by its name")
        seen.add(key)

    return Vector(tuple(samples))
