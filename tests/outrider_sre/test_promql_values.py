"""What PromQL queries are worth, against values worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider_sre.errors import BadRequestError
from outrider_sre.metric_store import MetricStore
from outrider_sre.promql import Scalar, Series, evaluate, parse

START = 1000.0


def recorded(name: str, values: Sequence[float], interval: float = 30.0, **labels: str) -> Series:
    times = tuple(START + number * interval for number in range(len(values)))
    return Series({"__name__": name, **labels}, times, tuple(values))


def answer(query: str, series: list[Series], moment: float) -> dict[tuple[tuple[str, str], ...], float]:
    value = evaluate(parse(query), MetricStore(series).find, moment)
    assert not isinstance(value, Scalar)
    return {tuple(sorted(sample.labels.items())): sample.value for sample in value.samples}


def single(query: str, series: list[Series], moment: float) -> float:
    (value,) = answer(query, series, moment).values()
    return value


def number(query: str) -> float:
    value = evaluate(parse(query), MetricStore([]).find, START)
    assert isinstance(value, Scalar)
    return value.value


def test_a_selector_takes_the_newest_sample_of_each_matching_series() -> None:
    series = [recorded("up", [1, 0], pod="a"), recorded("up", [1, 1], pod="b"), recorded("down", [5, 5], pod="a")]

    assert answer('up{pod="a"}', series, START + 29) == {(("__name__", "up"), ("pod", "a")): 1}
    assert answer('up{pod="a"}', series, START + 30) == {(("__name__", "up"), ("pod", "a")): 0}
    assert len(answer("up", series, START + 30)) == 2


@pytest.mark.parametrize(
    ("matcher", "pods"),
    [
        ('pod="a1"', {"a1"}),
        ('pod!="a1"', {"a2", "b", ""}),
        ('pod=~"a."', {"a1", "a2"}),
        ('pod=~"a"', set()),
        ('pod!~"a.|b"', {""}),
        ('pod=""', {""}),
        ('pod=~"|b"', {"", "b"}),
    ],
)
def test_matchers_are_anchored_and_see_a_missing_label_as_empty(matcher: str, pods: set[str]) -> None:
    series = [recorded("up", [1], pod=pod) for pod in ("a1", "a2", "b")] + [recorded("up", [1])]

    found = {dict(labels).get("pod", "") for labels in answer(f"up{{{matcher}}}", series, START)}

    assert found == pods


def test_a_sample_counts_for_five_minutes_and_no_longer() -> None:
    series = [recorded("up", [1])]

    assert answer("up", series, START + 299)
    assert answer("up", series, START + 300) == {}
    assert answer("up", series, START - 1) == {}


def test_a_series_whose_target_is_gone_ends_at_once() -> None:
    gone = Series({"__name__": "up"}, (START,), (1.0,), stale_at=START + 30)

    assert answer("up", [gone], START + 29)
    assert answer("up", [gone], START + 30) == {}


def test_rate_reaches_the_edges_of_the_window_by_extrapolation() -> None:
    # The window (1000, 1300] holds the samples at 1030 … 1300: ten samples, 9 × 30 s apart, each 60 more than the last.
    series = [recorded("x_total", [1000 + 60 * step for step in range(11)])]

    # 540 in 270 s, and 30 s to the start of the window: within 1.1 distances, so all 300 s count: 600 in 300 s.
    assert single("increase(x_total[5m])", series, START + 300) == pytest.approx(600)
    assert single("rate(x_total[5m])", series, START + 300) == pytest.approx(2)


def test_extrapolation_stops_half_a_distance_beyond_a_series_that_begins_inside_the_window() -> None:
    series = [Series({"__name__": "x_total"}, (1200.0, 1230.0, 1260.0), (1000.0, 1030.0, 1060.0))]

    # 60 in 60 s; 15 s are added in front and, 40 s being more than 33, 15 s behind: 60 × 90 / 60.
    assert single("increase(x_total[5m])", series, 1300.0) == pytest.approx(90)
    assert single("rate(x_total[5m])", series, 1300.0) == pytest.approx(0.3)


def test_extrapolation_never_goes_to_before_a_counter_was_zero() -> None:
    series = [Series({"__name__": "x_total"}, (1030.0, 1060.0), (10.0, 40.0))]

    # The counter was zero 10 s before its first sample, although the window reaches 30 s back: 30 × (30 + 10) / 30.
    assert single("increase(x_total[1m])", series, 1060.0) == pytest.approx(40)


def test_a_counter_reset_adds_what_had_been_reached_before() -> None:
    series = [Series({"__name__": "x_total"}, (1010.0, 1040.0, 1070.0, 1100.0), (100.0, 160.0, 20.0, 80.0))]

    # Grown by 60, reset, 20, and 60 more: 140 in 90 s; 10 s to the start are added, none at the end: 140 × 100 / 90.
    assert single("increase(x_total[100s])", series, 1100.0) == pytest.approx(140 * 100 / 90)


def test_the_window_is_open_at_its_start_and_closed_at_its_end() -> None:
    series = [recorded("x_total", [0, 10, 20])]

    assert answer("rate(x_total[30s])", series, START + 30) == {}
    assert single("increase(x_total[31s])", series, START + 30) == pytest.approx(10)


def test_one_sample_has_no_rate() -> None:
    assert answer("rate(x_total[5m])", [recorded("x_total", [5])], START) == {}


def test_aggregation_keeps_the_labels_named_and_drops_the_rest() -> None:
    series = [
        recorded("load", [1], service="a", pod="a1"),
        recorded("load", [3], service="a", pod="a2"),
        recorded("load", [10], service="b", pod="b1"),
    ]

    assert answer("sum by (service) (load)", series, START) == {(("service", "a"),): 4, (("service", "b"),): 10}
    assert answer("avg by (service) (load)", series, START) == {(("service", "a"),): 2, (("service", "b"),): 10}
    assert answer("max by (service) (load)", series, START) == {(("service", "a"),): 3, (("service", "b"),): 10}
    assert answer("sum(load)", series, START) == {(): 14}
    assert answer("sum by (absent) (load)", series, START) == {(): 14}
    assert answer("sum(nothing)", series, START) == {}


def test_sums_of_infinities_are_not_a_number_and_never_an_error() -> None:
    series = [recorded("load", [math.inf], pod="a"), recorded("load", [-math.inf], pod="b")]

    assert math.isnan(single("sum(load)", series, START))
    assert single("max(load)", series, START) == math.inf


def test_a_comparison_filters_and_keeps_the_values_of_the_vector() -> None:
    series = [recorded("load", [1], pod="a"), recorded("load", [3], pod="b")]

    assert list(answer("load > 2", series, START).values()) == [3]
    assert list(answer("2 > load", series, START).values()) == [1]
    assert list(answer("load != 1", series, START).values()) == [3]
    assert (("__name__", "load"), ("pod", "b")) in answer("load >= 3", series, START)


def test_arithmetic_with_a_number_works_from_both_sides_and_drops_the_name() -> None:
    series = [recorded("load", [8], pod="a")]

    assert answer("load * 100 / 16", series, START) == {(("pod", "a"),): 50}
    assert single("20 - load", series, START) == 12
    assert single("-load", series, START) == -8
    assert single("load % 5", series, START) == 3
    assert single("2 ^ load", series, START) == 256


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-2 ^ 2", -4),
        ("2 ^ 3 ^ 2", 512),
        ("-7 % 3", -1),
        ("1 / 0", math.inf),
        ("-1 / 0", -math.inf),
        ("10 ^ 400", math.inf),
        ("0 ^ -1", math.inf),
        ("0x1F", 31),
    ],
)
def test_arithmetic_between_numbers(query: str, value: float) -> None:
    assert number(query) == value


@pytest.mark.parametrize("query", ["0 / 0", "5 % 0", "(-8) ^ 0.5", "NaN + 1"])
def test_impossible_arithmetic_is_not_a_number_and_never_an_error(query: str) -> None:
    assert math.isnan(number(query))


def test_dropping_the_name_never_merges_two_metrics_in_silence() -> None:
    series = [recorded("a", [1], pod="x"), recorded("b", [1], pod="x")]

    with pytest.raises(BadRequestError, match="the same labels twice"):
        answer('{pod="x"} * 2', series, START)


BUCKETS = [("0.1", 20.0), ("0.5", 60.0), ("1", 90.0), ("+Inf", 100.0)]


@pytest.mark.parametrize(
    ("quantile", "value"),
    [
        ("0.1", 0.05),  # rank 10 of the 20 in the first bucket, which begins at zero
        ("0.5", 0.4),  # rank 50: 30 of the 40 between 0.1 and 0.5
        ("0.75", 0.75),  # rank 75: half of the 30 between 0.5 and 1
        ("0.9", 1.0),
        ("0.99", 1.0),  # beyond the last bound nothing is known but that bound
        ("1.5", math.inf),
        ("-0.5", -math.inf),
        ("3 / 4", 0.75),
    ],
)
def test_a_quantile_is_interpolated_inside_its_bucket(quantile: str, value: float) -> None:
    series = [recorded("x_bucket", [count], le=bound, pod="a") for bound, count in BUCKETS]

    assert answer(f"histogram_quantile({quantile}, x_bucket)", series, START) == {
        (("pod", "a"),): pytest.approx(value),
    }


def test_a_histogram_without_observations_or_without_its_last_bucket_has_no_quantile() -> None:
    empty = [recorded("x_bucket", [0], le=bound) for bound, _ in BUCKETS]
    headless = [recorded("x_bucket", [5], le="0.1"), recorded("x_bucket", [9], le="0.5")]

    assert math.isnan(single("histogram_quantile(0.5, x_bucket)", empty, START))
    assert math.isnan(single("histogram_quantile(0.5, x_bucket)", headless, START))
    assert answer("histogram_quantile(0.5, x)", [recorded("x", [1])], START) == {}


steps = st.lists(st.integers(min_value=0, max_value=1000), min_size=2, max_size=30)


@given(steps)
def test_an_increase_is_never_negative_and_never_less_than_what_was_seen(growth: list[int]) -> None:
    totals = [float(sum(growth[: index + 1])) for index in range(len(growth))]
    series = [recorded("x_total", totals)]
    end = START + 30 * (len(totals) - 1)

    grown = single(f"increase(x_total[{30 * len(totals)}s])", series, end)

    assert grown >= totals[-1] - totals[0] - 1e-6


@given(steps)
def test_a_reset_counter_shows_the_same_increase_as_one_that_went_on(growth: list[int]) -> None:
    totals = [10_000.0 + sum(growth[: index + 1]) for index in range(len(growth))]
    cut = len(totals) // 2
    # A process that restarts at `cut` counts from zero again; what it counts first is what it then shows.
    reset = totals[:cut] + [total - totals[cut] + growth[cut] for total in totals[cut:]]
    end = START + 30 * (len(totals) - 1)
    query = f"increase(x_total[{30 * len(totals)}s])"

    assert single(query, [recorded("x_total", reset)], end) == pytest.approx(
        single(query, [recorded("x_total", totals)], end)
    )


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=3, max_size=8), st.floats(min_value=0, max_value=1))
def test_a_quantile_lies_within_the_bounds_of_the_histogram(counts: list[float], wanted: float) -> None:
    cumulative = sorted(counts)
    bounds = [str(number) for number in range(1, len(cumulative))] + ["+Inf"]
    series = [recorded("x_bucket", [count], le=bound) for bound, count in zip(bounds, cumulative, strict=True)]

    value = single(f"histogram_quantile({wanted:.6f}, x_bucket)", series, START)

    assert math.isnan(value) if cumulative[-1] == 0 else 0 <= value <= len(cumulative) - 1
