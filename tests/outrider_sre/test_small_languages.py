"""The smaller languages: times, durations, label matchers, log queries and label selectors."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_sre.errors import BadRequestError
from outrider_sre.label_selector import parse_label_selector
from outrider_sre.logql import parse_log_query
from outrider_sre.matchers import compile_pattern
from outrider_sre.times import format_log_time, format_time, parse_duration, parse_time, parse_window

NOW = datetime(2026, 9, 17, 14, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("now", "2026-09-17T14:30:00Z"),
        ("now-30m", "2026-09-17T14:00:00Z"),
        ("now+1h30m", "2026-09-17T16:00:00Z"),
        ("2026-09-17T14:12:30Z", "2026-09-17T14:12:30Z"),
        ("2026-09-17T14:12:30Z-20m", "2026-09-17T13:52:30Z"),
        ("2026-09-17T14:12:30.250Z", "2026-09-17T14:12:30.250Z"),
        ("2026-09-17T16:12:30+02:00", "2026-09-17T14:12:30Z"),
        ("2026-09-17T16:12:30+02:00-90s", "2026-09-17T14:11:00Z"),
        ("2026-09-17T14:12:30", "2026-09-17T14:12:30Z"),
        (" 2026-09-17 ", "2026-09-17T00:00:00Z"),
    ],
)
def test_times_are_iso_or_now_with_an_optional_shift(text: str, shown: str) -> None:
    assert format_time(parse_time(text, NOW)) == shown


@pytest.mark.parametrize("text", ["", "yesterday", "14:00", "now-30", "now-m", "2026-13-01T00:00:00Z"])
def test_other_times_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadRequestError) as refusal:
        parse_time(text, NOW)

    assert "2026-09-17T14:00:00Z" in refusal.value.hint


def test_durations_add_up_their_parts() -> None:
    assert parse_duration("1h30m5s250ms") == 5405.25
    assert parse_duration("2d") == 172800
    for text in ("", "5", "m", "-5m", "5 m", "0s", "1.5h"):
        with pytest.raises(BadRequestError):
            parse_duration(text)


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    assert parse_window(None, None, NOW, 60) == (NOW - 60, NOW)
    with pytest.raises(BadRequestError, match="the window is empty"):
        parse_window("now", "now-5m", NOW, 60)


@given(st.datetimes(min_value=datetime(1990, 1, 1), max_value=datetime(2090, 1, 1)))
def test_a_log_time_is_read_back_to_the_millisecond(moment: datetime) -> None:
    seconds = moment.replace(tzinfo=UTC).timestamp()

    assert abs(parse_time(format_log_time(seconds), 0.0) - seconds) <= 0.0006


LABELS = {"service": "checkout", "level": "error", "pod": "checkout-1", "upstream": "inventory"}
MESSAGE = "call to inventory failed: no answer within 2000 ms (attempt 2 of 3)"


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ('{service="checkout"}', True),
        ('{service="checkout",level=~"error|warn"}', True),
        ('{ service = "checkout" , level != "info", }', True),
        ('{service=~"check"}', False),
        ('{service!="checkout",level="error"}', False),
        ('{service="checkout"} |= "no answer"', True),
        ('{service="checkout"} |= "no answer" != "attempt 2"', False),
        ('{service="checkout"} |~ "attempt [12] of"', True),
        ('{service="checkout"} !~ "attempt \\\\d"', False),
        ("{service=`checkout`} |= `inventory`", True),
        ('{service="checkout"} | upstream="inventory"', True),
        ('{service="checkout"} | upstream!="inventory" |= "no answer"', False),
        ('{service="checkout",missing=""}', True),
        ('{service="checkout"}|="(attempt 2 of 3)"', True),
    ],
)
def test_a_log_query_selects_by_labels_fields_and_text(query: str, selected: bool) -> None:
    assert parse_log_query(query).matches(LABELS, MESSAGE) is selected


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("error", "starts with a stream selector"),
        ("", "starts with a stream selector"),
        ("{}", "does not match the empty value"),
        ('{service=~".*"}', "does not match the empty value"),
        ("{service=checkout}", "cannot read the selector"),
        ('{service="checkout"', "expected `,` or `}`"),
        ('{service="checkout"} | json', "the stage `| json` is not supported"),
        ('{service="checkout"} | line_format "x"', "the stage `| line_format` is not supported"),
        ('{service="checkout"} error', "cannot read the query"),
        ('{service="checkout"} |= error', "cannot read the query"),
        ('count_over_time({service="checkout"}[5m])', "metric queries"),
        ('sum by (pod) (rate({service="checkout"}[5m]))', "metric queries"),
        ('{service="checkout"} |~ "("', "is not a regular expression"),
        ('{service="checkout"} |~ "(x+)+"', "must not itself contain a repetition"),
        ('{service="' + "x" * 2000 + '"}', "longer than 2000"),
    ],
)
def test_another_log_query_is_refused_with_a_reason_and_a_hint(query: str, reason: str) -> None:
    with pytest.raises(BadRequestError) as refusal:
        parse_log_query(query)

    assert reason in refusal.value.message
    assert refusal.value.hint


@given(st.text(alphabet='{}service="~!|,x`\\ (+)*[]', max_size=50))
def test_any_text_is_a_log_query_or_refused_but_never_crashes(text: str) -> None:
    hint = "accepted"
    try:
        parse_log_query(text)
    except BadRequestError as refusal:
        hint = refusal.hint

    assert hint


RUNAWAYS = ["(a+)+", "(a*)*b", "((ab)+c?)*", "(x+x+)+y", "(a{2,})+", "(?=a)", r"(a)\1", "x" * 201]
ORDINARY = ["error|warn", "5..", "pool.*exhausted", "(a|b)+", "[(+)]+", r"\(a+\)+", "(ab){3}c+"]


@pytest.mark.parametrize("pattern", RUNAWAYS)
def test_a_regular_expression_that_could_run_away_is_refused(pattern: str) -> None:
    with pytest.raises(BadRequestError):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ORDINARY)
def test_ordinary_regular_expressions_are_let_in(pattern: str) -> None:
    assert compile_pattern(pattern).pattern == pattern


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("app=checkout", True),
        ("app==checkout,tier=web", True),
        ("app!=checkout", False),
        ("app in (checkout, basket)", True),
        ("app notin (checkout,basket)", False),
        ("app in (basket),tier", False),
        ("tier", True),
        ("!tier", False),
        ("!canary", True),
        ("zone!=a", True),
    ],
)
def test_a_label_selector_selects_as_kubernetes_does(selector: str, selected: bool) -> None:
    assert parse_label_selector(selector)({"app": "checkout", "tier": "web"}) is selected


@pytest.mark.parametrize("selector", ["app>1", "app=checkout,,tier", "app in checkout", "=x", "app = a b"])
def test_another_label_selector_is_refused_with_what_is_accepted(selector: str) -> None:
    with pytest.raises(BadRequestError) as refusal:
        parse_label_selector(selector)

    assert "notin" in refusal.value.hint
