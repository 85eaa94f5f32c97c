"""The shapes a parsed PromQL query can have.

Owns the nodes and the kind of value each one yields; no parsing and no evaluation. Invariant: a node that exists is
well typed, because the parser builds it only after checking its parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from outrider_sre.matchers import Matcher


class Kind(Enum):
    """What evaluating an expression yields."""

    SCALAR = "number"
    INSTANT = "instant vector"
    RANGE = "range vector"


@dataclass(frozen=True, slots=True)
class Number:
    """A literal number."""

    value: float
    kind = Kind.SCALAR


@dataclass(frozen=True, slots=True)
class Selector:
    """The newest sample of each matching series."""

    matchers: tuple[Matcher, ...]
    kind = Kind.INSTANT


@dataclass(frozen=True, slots=True)
class RangeSelector:
    """All samples of each matching series inside a window ending now."""

    selector: Selector
    seconds: float
    kind = Kind.RANGE


@dataclass(frozen=True, slots=True)
class Rate:
    """`rate` (per second) or `increase` (total) of counters."""

    argument: RangeSelector
    per_second: bool
    kind = Kind.INSTANT


@dataclass(frozen=True, slots=True)
class Quantile:
    """`histogram_quantile` over cumulative buckets."""

    quantile: Expression
    argument: Expression
    kind = Kind.INSTANT


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`sum`, `avg` or `max`, one result for each combination of the labels named."""

    operator: str
    by: tuple[str, ...]
    argument: Expression
    kind = Kind.INSTANT


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An arithmetic operator between two numbers, or between a vector and a number."""

    operator: str
    left: Expression
    right: Expression

    @property
    def kind(self) -> Kind:
        """A vector as soon as one side is one."""
        return Kind.INSTANT if Kind.INSTANT in (self.left.kind, self.right.kind) else Kind.SCALAR


@dataclass(frozen=True, slots=True)
class Comparison:
    """Keeps the elements of a vector for which the comparison with a number holds."""

    operator: str
    left: Expression
    right: Expression
    kind = Kind.INSTANT


Expression = Number | Selector | RangeSelector | Rate | Quantile | Aggregation | Arithmetic | Comparison
