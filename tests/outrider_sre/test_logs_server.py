"""The tools of the log server."""

from __future__ import annotations

from outrider_sre.logs import server
from tests.outrider_sre.asking import ask, refused


async def test_lines_come_newest_first_within_the_limit_and_say_what_is_left_out() -> None:
    answer = await ask(server, "query", query='{service="checkout",level="error"}', limit=5)

    times = [entry["ts"] for entry in answer["entries"]]
    assert len(times) == 5
    assert times == sorted(times, reverse=True)
    assert answer["truncated"] is True
    assert answer["total"] > 1000
    assert {entry["level"] for entry in answer["entries"]} == {"error"}


async def test_lines_can_be_read_forward_from_a_moment_and_carry_their_fields() -> None:
    answer = await ask(
        server,
        "query",
        query='{service="checkout"} |= "call to inventory failed"',
        start="2026-09-17T14:00:00Z",
        end="2026-09-17T14:10:00Z",
        direction="forward",
        limit=1,
    )

    (entry,) = answer["entries"]
    assert entry["fields"]["upstream"] == "inventory"
    assert entry["pod"].startswith("checkout-")
    assert answer["start"] == "2026-09-17T14:00:00Z"
    assert answer["end"] == "2026-09-17T14:10:00Z"


async def test_a_limit_beyond_the_highest_is_lowered_not_refused() -> None:
    answer = await ask(server, "query", query='{service="gateway"}', limit=100_000)

    assert len(answer["entries"]) == 500
    assert answer["truncated"] is True


async def test_the_default_window_ends_at_the_recorded_end_and_not_today() -> None:
    answer = await ask(server, "query", query='{service="gateway"}', limit=1)

    assert answer["end"] == "2026-09-17T14:30:00Z"
    assert answer["start"] == "2026-09-17T13:30:00Z"


async def test_counts_are_grouped_largest_first_with_first_and_last_time() -> None:
    answer = await ask(server, "stats", query='{level="error"}', by=["service"])

    counts = [group["count"] for group in answer["groups"]]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == answer["total"]
    assert answer["groups"][0]["labels"] == {"service": "checkout"}
    assert all(group["first_ts"] <= group["last_ts"] for group in answer["groups"])
    lines = await ask(server, "query", query='{service="checkout",level="error"}', limit=1, direction="forward")
    assert answer["groups"][0]["count"] == lines["total"]
    assert answer["groups"][0]["first_ts"] == lines["entries"][0]["ts"]


async def test_counts_per_step_add_up_and_show_the_rise() -> None:
    answer = await ask(server, "stats", query='{service="checkout",level="error"}', by=[], step="5m")

    (group,) = answer["groups"]
    assert answer["step_seconds"] == 300
    assert sum(step["count"] for step in group["steps"]) == answer["total"] == group["count"]
    assert group["steps"][-1]["count"] > 20 * group["steps"][0]["count"]


async def test_patterns_tell_new_messages_from_everyday_ones() -> None:
    arguments = {"query": '{namespace="shop",level=~"error|warn"}', "start": "2026-09-17T14:00:00Z"}
    everything = await ask(server, "patterns", **arguments)
    novel = await ask(server, "patterns", **arguments, novel_only=True)

    everyday = {one["service"] for one in everything["patterns"] if not one["novel"]}
    assert {"recommendations", "payments"} <= everyday
    assert all(one["novel"] for one in novel["patterns"])
    first = novel["patterns"][0]
    assert first["service"] == "inventory"
    assert "pool exhausted (<_> of <_> in use" in first["pattern"]
    assert "10 of 10 in use" in first["sample"]
    assert first["first_pod"] in first["pods"]
    assert len(first["pods"]) == 3


async def test_labels_and_their_values_can_be_discovered() -> None:
    names = await ask(server, "labels")
    services = await ask(server, "label_values", label="service")
    upstreams = await ask(server, "label_values", label="upstream", query='{service="checkout"}')

    assert names["stream_labels"] == ["namespace", "service", "pod", "container", "level"]
    assert {"upstream", "status", "trace_id"} <= set(names["fields"])
    assert {"checkout", "inventory", "postgres"} <= {one["value"] for one in services["values"]}
    assert upstreams["values"][0]["value"] == "inventory"


async def test_finding_nothing_says_why() -> None:
    misspelt = await ask(server, "query", query='{service="chekout"}')
    outside = await ask(server, "stats", query='{service="checkout"}', start="2020-01-01", end="2020-01-02")
    nothing = await ask(server, "patterns", query='{service="checkout"} |= "unicorn"')

    assert 'no line has service="chekout"' in misspelt["note"]
    assert "checkout" in misspelt["note"]
    assert "outside the recording" in outside["note"]
    assert nothing["note"] == "no line in the window matches"


async def test_bad_questions_are_refused_with_what_is_accepted() -> None:
    assert "accepted: `{service=" in await refused(server, "query", query="errors in checkout")
    assert "is not a time" in await refused(server, "query", query='{service="checkout"}', start="an hour ago")
    assert "the window is empty" in await refused(server, "stats", query='{service="checkout"}', start="now")
    assert "is not a duration" in await refused(server, "stats", query='{service="checkout"}', step="often")
    assert "no line has a label `colour`" in await refused(server, "label_values", label="colour")
