"""PromQL text to syntax, by recursive descent.

Owns the grammar and every refusal of what lies outside it. Knows neither samples nor time. Invariant: the tree returned
is well typed, so the evaluator never meets a combination it cannot compute.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from outrider_sre.matchers import OPERATORS, Matcher
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
from outrider_sre.promql.tokens import Token, refusal, tokenise, unquote
from outrider_sre.times import parse_duration

NESTING = 40
"""Deeper queries are refused, long before the interpreter's stack would end."""

_AGGREGATIONS = frozenset({"sum", "avg", "max"})
_OTHER_AGGREGATIONS = frozenset(
    {
        "min",
        "count",
        "topk",
        "bottomk",
        "quantile",
        "stddev",
        "stdvar",
        "group",
        "count_values",
        "limitk",
        "limit_ratio",
    }
)
_COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
_SET_OPERATORS = frozenset({"and", "or", "unless"})
_NUMBERS = {"inf": math.inf, "nan": math.nan}


def parse(query: str) -> Expression:
    """The syntax tree of a query; raises BadRequestError with what is accepted."""
    parser = _Parser(tokenise(query))
    expression = parser.comparison()
    parser.finish()
    if expression.kind is Kind.RANGE:
        raise refusal("a range such as `[5m]` must be inside `rate(...)` or `increase(...)`")

    return expression


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    # Reading tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _take(self) -> Token:
        token = self._next
        self._position += 1
        return token

    def _accept(self, *texts: str) -> Token | None:
        return self._take() if self._next.kind in ("operator", "name") and self._next.text in texts else None

    def _expect(self, text: str, where: str) -> None:
        if self._accept(text) is None:
            raise refusal(f"expected `{text}` {where}, found {self._shown()} at column {self._next.column}")

    def _shown(self) -> str:
        return self._next.text if self._next.kind == "end" else f"`{self._next.text}`"

    def finish(self) -> None:
        """Refuse whatever follows a complete expression, by name where it is a known word of PromQL."""
        token = self._next
        if token.kind == "end":
            return

        if token.text in _SET_OPERATORS:
            raise refusal(f"set operators are not supported: `{token.text}` at column {token.column}")
        if token.text in ("by", "without"):
            raise refusal(f"`{token.text}` belongs to an aggregation: `sum by (service) (...)`")
        self._refuse_modifier()
        raise refusal(f"unexpected {self._shown()} at column {token.column}")

    def _refuse_modifier(self) -> None:
        if self._next.text in ("offset", "@"):
            raise refusal(f"`{self._next.text}` is not supported; ask for another time through the tool's arguments")

    # Operators, loosest first

    def comparison(self) -> Expression:
        """`a > 1`: loosest of all, and not associative in any useful way."""
        left = self._sum()
        while operator := self._accept(*_COMPARISONS):
            if self._next.text == "bool":
                raise refusal("the `bool` modifier is not supported; a comparison filters")
            self._refuse_matching()
            right = self._sum()
            if left.kind is Kind.SCALAR and right.kind is Kind.SCALAR:
                raise refusal(f"`{operator.text}` between two numbers is not supported; compare a vector with a number")
            self._check_operands(operator, left, right)
            left = Comparison(operator.text, left, right)

        return left

    def _sum(self) -> Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Expression:
        return self._chain(self._signed, "*", "/", "%")

    def _chain(self, operand: Callable[[], Expression], *operators: str) -> Expression:
        left = operand()
        while operator := self._accept(*operators):
            self._refuse_matching()
            right = operand()
            self._check_operands(operator, left, right)
            left = Arithmetic(operator.text, left, right)

        return left

    def _signed(self) -> Expression:
        self._deeper()
        try:
            if self._accept("+"):
                return self._signed()
            if minus := self._accept("-"):
                operand = self._signed()
                self._check_operands(minus, Number(-1.0), operand)
                return Number(-operand.value) if isinstance(operand, Number) else Arithmetic("*", Number(-1.0), operand)
            return self._power()
        finally:
            self._depth -= 1

    def _power(self) -> Expression:
        base = self._primary()
        operator = self._accept("^")
        if operator is None:
            return base

        self._refuse_matching()
        exponent = self._signed()
        self._check_operands(operator, base, exponent)
        return Arithmetic("^", base, exponent)

    def _check_operands(self, operator: Token, left: Expression, right: Expression) -> None:
        if Kind.RANGE in (left.kind, right.kind):
            raise refusal(f"`{operator.text}` cannot be applied to a range such as `[5m]`; put it inside `rate(...)`")
        if left.kind is Kind.INSTANT and right.kind is Kind.INSTANT:
            raise refusal(
                f"`{operator.text}` between two vectors is not supported (column {operator.column}); "
                "one side must be a number, so ask two queries and compare the answers"
            )

    def _refuse_matching(self) -> None:
        if self._next.text in ("on", "ignoring"):
            raise refusal(f"vector matching with `{self._next.text}` is not supported; one side must be a number")

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > NESTING:
            raise refusal(f"the query is nested deeper than {NESTING} levels")

    # Operands

    def _primary(self) -> Expression:
        token = self._next
        if self._accept("("):
            inner = self.comparison()
            self._expect(")", "to close the bracket")
            return inner
        if token.kind == "number":
            return Number(_number(self._take()))
        if token.kind == "name":
            return self._named()
        if token.text == "{":
            return self._range_or_selector(self._matchers(()))
        if token.kind in ("duration", "string"):
            raise refusal(f"a {token.kind} cannot stand alone: `{token.text}` at column {token.column}")

        raise refusal(f"expected a selector, a function or a number, found {self._shown()} at column {token.column}")

    def _named(self) -> Expression:
        name = self._take()
        if name.text.lower() in _NUMBERS and self._next.text not in ("{", "("):
            return Number(_NUMBERS[name.text.lower()])
        if name.text in _AGGREGATIONS and self._next.text in ("(", "by", "without"):
            return self._aggregation(name)
        if self._next.text == "(":
            return self._function(name)
        if name.text in _OTHER_AGGREGATIONS and self._next.text in ("by", "without"):
            raise refusal(f"the aggregation `{name.text}` is not supported")

        return self._range_or_selector(self._matchers((Matcher("__name__", "=", name.text),)))

    def _function(self, name: Token) -> Expression:
        if name.text in _OTHER_AGGREGATIONS:
            raise refusal(f"the aggregation `{name.text}` is not supported")
        if name.text in ("rate", "increase"):
            return self._rate(name)
        if name.text == "histogram_quantile":
            return self._quantile()

        raise refusal(f"the function `{name.text}` is not supported")

    def _rate(self, name: Token) -> Rate:
        self._expect("(", f"after `{name.text}`")
        argument = self.comparison()
        self._expect(")", f"to close `{name.text}`")
        if not isinstance(argument, RangeSelector):
            raise refusal(f"`{name.text}` needs a range vector: `{name.text}(requests_total[5m])`")

        return Rate(argument, per_second=name.text == "rate")

    def _quantile(self) -> Quantile:
        self._expect("(", "after `histogram_quantile`")
        quantile = self.comparison()
        self._expect(",", "between the quantile and the buckets")
        argument = self.comparison()
        self._expect(")", "to close `histogram_quantile`")
        if quantile.kind is not Kind.SCALAR or argument.kind is not Kind.INSTANT:
            raise refusal("`histogram_quantile` needs a number and buckets: `histogram_quantile(0.9, x_bucket)`")

        return Quantile(quantile, argument)

    def _aggregation(self, name: Token) -> Aggregation:
        by = self._grouping()
        self._expect("(", f"after `{name.text}`")
        argument = self.comparison()
        self._expect(")", f"to close `{name.text}`")
        if argument.kind is not Kind.INSTANT:
            raise refusal(f"`{name.text}` needs an instant vector, not a {argument.kind.value}")

        if by is None:
            by = self._grouping() or ()

        return Aggregation(name.text, by, argument)

    def _grouping(self) -> tuple[str, ...] | None:
        if self._next.text == "without":
            raise refusal("`without` is not supported; name the labels to keep with `by (...)`")
        if self._accept("by") is None:
            return None

        self._expect("(", "after `by`")
        labels: list[str] = []
        while self._accept(")") is None:
            if self._next.kind != "name":
                raise refusal(f"expected a label name in `by (...)`, found {self._shown()}")
            labels.append(self._take().text)
            if self._next.text != ")":
                self._expect(",", "between the labels of `by (...)`")

        return tuple(labels)

    def _range_or_selector(self, matchers: tuple[Matcher, ...]) -> Selector | RangeSelector:
        if all(matcher.matches("") for matcher in matchers):
            raise refusal("a selector needs a metric name or a matcher that does not match the empty value")

        selector = Selector(matchers)
        result: Selector | RangeSelector = selector
        if self._accept("["):
            if self._next.kind != "duration":
                raise refusal(f"expected a duration such as `5m` in `[...]`, found {self._shown()}")
            seconds = parse_duration(self._take().text)
            if self._next.text.startswith(":"):
                raise refusal("subqueries such as `[1h:5m]` are not supported; use a range query instead")
            self._expect("]", "after the duration")
            result = RangeSelector(selector, seconds)
        self._refuse_modifier()
        return result

    def _matchers(self, named: tuple[Matcher, ...]) -> tuple[Matcher, ...]:
        matchers = list(named)
        if self._accept("{") is None:
            return named

        while self._accept("}") is None:
            label = self._take()
            if label.kind != "name":
                raise refusal(f'expected a label name inside `{{...}}`, found `{label.text}`; write `{{service="x"}}`')
            operator = self._accept(*OPERATORS)
            if operator is None:
                raise refusal(f"expected one of `=` `!=` `=~` `!~` after `{label.text}`, found {self._shown()}")
            if self._next.kind != "string":
                raise refusal(f'the value of `{label.text}` must be quoted: `{label.text}{operator.text}"..."`')
            matchers.append(Matcher(label.text, operator.text, unquote(self._take().text)))
            if self._next.text != "}":
                self._expect(",", "between matchers")

        return tuple(matchers)


def _number(token: Token) -> float:
    return float(int(token.text, 16)) if token.text.lower().startswith("0x") else float(token.text)
