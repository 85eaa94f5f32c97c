"""A small, exact part of PromQL: `parse` a query, `evaluate` it at a moment over recorded series.

    tokens → syntax → parser          what was written
    series → functions → evaluator    what it means

Knows no files, no MCP and no clock. Invariant: a query either means what Prometheus would make of it, or is refused
with a sentence that says what is accepted.
"""

from outrider_sre.promql.evaluator import Scalar, Value, Vector, evaluate
from outrider_sre.promql.parser import parse
from outrider_sre.promql.series import Point, Series
from outrider_sre.promql.syntax import Expression

__all__ = ["Expression", "Point", "Scalar", "Series", "Value", "Vector", "evaluate", "parse"]
