"""What the PromQL parser accepts, and how it refuses the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_sre.errors import BadRequestError
from outrider_sre.promql import parse

ACCEPTED = [
    "up",
    'http_requests_total{service="checkout",code!="200",pod=~"a.*",zone!~"x|y"}',
    '{__name__="up"}',
    "rate(http_requests_total[5m])",
    "increase(http_requests_total{code=~'5..'}[1h30m])",
    "sum(up)",
    "sum by (service) (rate(x[5m]))",
    "sum(rate(x[5m])) by (service, pod)",
    "avg by () (up)",
    "max by (pod,) (up)",
    "histogram_quantile(0.95, sum by (le) (rate(x_bucket[5m])))",
    "up > 1",
    "1 < up",
    "up * 100 + 1 - 2 / 4 % 3 ^ 2",
    "-up",
    "(1 + 2) * 3",
    "service:errors:ratio_rate5m > 5e-2",
    "sum",
    "up # a comment",
    "up == NaN",
    "up < +Inf",
    "max by (service) (a > 1) * 2",
]

REFUSED = [
    ("up offset 5m", "`offset` is not supported"),
    ("rate(x[5m] offset 1h)", "`offset` is not supported"),
    ("up @ 1609746000", "`@` is not supported"),
    ("rate(x[1h:5m])", "subqueries"),
    ("a / b", "between two vectors is not supported"),
    ("sum(a) > sum(b)", "between two vectors is not supported"),
    ("a / on(pod) b", "vector matching with `on`"),
    ("a and b", "set operators are not supported: `and`"),
    ("a unless b", "set operators are not supported: `unless`"),
    ("up > bool 1", "the `bool` modifier"),
    ("1 > 2", "between two numbers"),
    ("sum without (pod) (up)", "`without` is not supported"),
    ("topk(3, up)", "the aggregation `topk` is not supported"),
    ("count by (pod) (up)", "the aggregation `count` is not supported"),
    ("irate(x[5m])", "the function `irate` is not supported"),
    ("rate(x)", "`rate` needs a range vector"),
    ("x[5m]", "must be inside `rate(...)`"),
    ("x[5m] + 1", "cannot be applied to a range"),
    ("sum(x[5m])", "not a range vector"),
    ("sum(1)", "not a number"),
    ("histogram_quantile(up, up)", "needs a number and buckets"),
    ("{}", "does not match the empty value"),
    ('{pod=~".*"}', "does not match the empty value"),
    ("up{pod=a}", "must be quoted"),
    ('up{pod~"a"}', "cannot read"),
    ('up{pod "a"}', "expected one of `=`"),
    ('up{pod="a" zone="b"}', "expected `,` between matchers"),
    ("up[5]", "expected a duration"),
    ("up[5w", "is not a duration"),
    ("sum(up", "expected `)`"),
    ("up up", "unexpected `up`"),
    ("up by (pod)", "belongs to an aggregation"),
    ("", "expected a selector"),
    ("5m", "a duration cannot stand alone"),
    ("'text'", "a string cannot stand alone"),
    ('up{pod=~"(a+)+"}', "must not itself contain a repetition"),
    ('up{pod=~"("}', "is not a regular expression"),
    ('up{pod=~"\\\\d"} $', "cannot read `$`"),
    ('up{pod="\\d"}', "unknown escape"),
    ("(" * 100 + "up" + ")" * 100, "nested deeper"),
    ("-" * 100 + "up", "nested deeper"),
    ("a" * 2001, "longer than 2000"),
]


@pytest.mark.parametrize("query", ACCEPTED)
def test_the_supported_part_of_promql_is_accepted(query: str) -> None:
    assert parse(query) is not None


@pytest.mark.parametrize(("query", "reason"), REFUSED)
def test_anything_else_is_refused_with_a_reason_and_what_is_accepted(query: str, reason: str) -> None:
    with pytest.raises(BadRequestError) as refusal:
        parse(query)

    assert reason in refusal.value.message
    assert refusal.value.hint


def test_every_refusal_of_an_unsupported_word_lists_what_is_supported() -> None:
    with pytest.raises(BadRequestError) as refusal:
        parse("up offset 5m")

    for word in ("`rate`", "`increase`", "`sum`", "`histogram_quantile`", "`=~`", "`[5m]`"):
        assert word in refusal.value.hint


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("a * 2 + 1", "(a * 2) + 1"),
        ("1 + a * 2", "1 + (a * 2)"),
        ("a - 1 - 2", "(a - 1) - 2"),
        ("2 ^ 3 ^ 2", "2 ^ (3 ^ 2)"),
        ("-2 ^ 2", "-(2 ^ 2)"),
        ("a + 1 > 2 * 3", "(a + 1) > (2 * 3)"),
        ("sum(a) by (b)", "sum by (b) (a)"),
    ],
)
def test_operators_bind_as_in_prometheus(query: str, same: str) -> None:
    assert parse(query) == parse(same)


@given(st.text(alphabet="abr ate(){}[]=~!\"'`5m,.+-*/%^<>:@#\\sumby0", max_size=60))
def test_any_text_is_either_parsed_or_refused_but_never_crashes(text: str) -> None:
    hint = "accepted"
    try:
        parse(text)
    except BadRequestError as refusal:
        hint = refusal.hint

    assert hint
