"""The tools of the metrics server."""

from __future__ import annotations

import json

import pytest

from outrider_sre.incident import ALERT
from outrider_sre.metrics import server
from tests.outrider_sre.asking import ask, refused


async def test_an_instant_query_answers_the_highest_value_first() -> None:
    answer = await ask(server, "query", query="sum by (service) (rate(http_requests_total[5m]))")

    values = [sample["value"] for sample in answer["result"]]
    assert answer["result_type"] == "vector"
    assert answer["time"] == "2026-09-17T14:30:00Z"
    assert values == sorted(values, reverse=True)
    assert len(values) == answer["total"] == 7


async def test_a_query_at_an_earlier_moment_sees_that_moment() -> None:
    before = await ask(server, "query", query='sum(db_pool_size{service="inventory"})', time="2026-09-17T14:00:00Z")
    after = await ask(server, "query", query='sum(db_pool_size{service="inventory"})')

    assert before["result"][0]["value"] == 60
    assert after["result"][0]["value"] == 30


async def test_the_metrics_show_the_causal_chain() -> None:
    """Less connections to the database, waiting requests, timeouts of the caller, retries on top, errors at the edge."""
    moments = {"before": "2026-09-17T14:00:00Z", "after": "2026-09-17T14:29:00Z"}

    async def value(query: str, moment: str) -> float:
        answer = await ask(server, "query", query=query, time=moments[moment])
        return float(answer["result"][0]["value"])

    connections = 'pg_stat_activity_count{datname="inventory"}'
    assert await value(connections, "after") < await value(connections, "before")
    waiting = 'max(db_pool_waiting{service="inventory"})'
    assert await value(waiting, "before") == 0
    assert await value(waiting, "after") > 20
    timeouts = 'sum(rate(http_client_requests_total{service="checkout",upstream="inventory",outcome="timeout"}[5m]))'
    assert await value(timeouts, "after") > 50 * await value(timeouts, "before")
    load = 'sum(rate(http_requests_total{service="inventory"}[5m]))'
    assert await value(load, "after") > 1.8 * await value(load, "before")
    slow = 'histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket{service="checkout"}[5m])))'
    assert await value(slow, "before") < 0.5
    assert await value(slow, "after") > 2
    noisy = 'service:http_errors:ratio_rate5m{service="recommendations"}'
    assert await value(noisy, "after") == pytest.approx(await value(noisy, "before"), rel=0.4)


async def test_a_filtered_range_tells_when_something_began() -> None:
    answer = await ask(
        server,
        "query_range",
        query='service:http_errors:ratio_rate5m{service="checkout"} > 0.05',
        start="2026-09-17T13:30:00Z",
        end="2026-09-17T14:30:00Z",
        step="30s",
    )

    (line,) = answer["result"]
    assert line["first"]["ts"] == line["values"][0]["ts"] == "2026-09-17T14:10:30Z"
    assert line["highest"]["value"] == max(point["value"] for point in line["values"])
    assert line["lowest"]["value"] == min(point["value"] for point in line["values"])
    assert line["last"]["ts"] == "2026-09-17T14:30:00Z"


async def test_a_range_of_many_series_is_cut_and_says_so() -> None:
    answer = await ask(server, "query_range", query="http_request_duration_seconds_bucket", step="15s")

    assert answer["truncated"] is True
    assert answer["total"] > len(answer["result"])
    assert sum(len(line["values"]) for line in answer["result"]) <= 3100


async def test_too_many_steps_are_refused_with_the_step_to_use() -> None:
    text = await refused(server, "query_range", query="app_info", start="now-2h", step="1s")

    assert "more than 300 steps" in text
    assert "at least `24s`" in text


async def test_the_rules_fire_the_recorded_alert_and_the_unrelated_ones() -> None:
    recorded = json.loads(ALERT.read_text(encoding="utf-8"))
    now = await ask(server, "alerts")
    earlier = await ask(server, "alerts", time="2026-09-17T13:45:00Z")
    pending = await ask(server, "alerts", time="2026-09-17T14:11:30Z", name="CheckoutErrorRateHigh")

    assert now["alerts"][0]["labels"] == recorded["labels"]
    assert now["alerts"][0]["fires_at"] == recorded["startsAt"]
    assert now["alerts"][0]["state"] == "firing"
    assert {alert["name"] for alert in earlier["alerts"]} == {"NodeDiskSpaceLow", "CertificateExpiresSoon"}
    assert [alert["state"] for alert in pending["alerts"]] == ["pending"]
    assert "there are: CheckoutErrorRateHigh" in await refused(server, "alerts", name="Nonsense")


async def test_metrics_and_series_can_be_discovered() -> None:
    names = {one["name"]: one for one in (await ask(server, "metric_names"))["metrics"]}
    series = await ask(server, "series", selector='db_pool_size{service="inventory"}')

    assert names["http_requests_total"]["type"] == "counter"
    assert names["http_request_duration_seconds_bucket"]["type"] == "histogram"
    assert all(one["help"] for one in names.values())
    assert {one["pod"].rsplit("-", 1)[0] for one in series["series"]} >= {"inventory-6b8f9d7c4"}
    assert series["total"] == 6


async def test_numbers_that_json_lacks_are_written_as_text() -> None:
    answer = await ask(server, "query", query='db_pool_waiting{service="payments"} / 0')

    assert {sample["value"] for sample in answer["result"]} == {"NaN"}
    assert (await ask(server, "query", query="1 / 0"))["result"] == [{"metric": {}, "value": "+Inf"}]


async def test_finding_nothing_says_why() -> None:
    misspelt = await ask(server, "query", query="rate(http_request_total[5m])")
    nothing = await ask(server, "query", query="db_pool_waiting > 1000")

    assert "did you mean `http_requests_total`" in misspelt["note"]
    assert "no series has a value that qualifies" in nothing["note"]


async def test_bad_questions_are_refused_with_what_is_accepted() -> None:
    offset = await refused(server, "query", query="app_info offset 5m")

    assert "`offset` is not supported" in offset
    assert "hint: accepted: selectors such as" in offset
    assert "is not a plain selector" in await refused(server, "series", selector="rate(app_info[5m])")
    assert "is not a time" in await refused(server, "query", query="app_info", time="noon")
