"""The measurements of the service in a small form: all that is measured happened. Never a timing."""

from __future__ import annotations

import pytest

from bench.checks import of_pure_checks, of_tool_calls
from bench.dispatches import in_process, over_stdio
from bench.latencies import main
from bench.notes import to_a_waiting_agent, to_a_working_agent
from bench.service import Series, series_table
from bench.siblings import sharing


async def test_each_dispatch_in_process_is_a_figure() -> None:
    assert [len(each.seconds) for each in await in_process(3)] == [3]


def test_each_dispatch_over_stdio_is_a_figure() -> None:
    assert [len(each.seconds) for each in over_stdio(2)] == [2]


async def test_each_message_to_a_waiting_agent_reaches_the_model() -> None:
    read, stored = await to_a_waiting_agent(3)

    assert (len(read.seconds), len(stored.seconds)) == (3, 3)
    assert min(read.seconds) > 0


async def test_each_message_to_a_working_agent_reaches_the_model() -> None:
    read, stored = await to_a_working_agent(3)

    assert (len(read.seconds), len(stored.seconds)) == (3, 3)
    assert min(read.seconds) > 0


async def test_checks_are_measured_on_calls_and_spawns_that_are_not_refused() -> None:
    assert [cost.counted for cost in await of_tool_calls(1, calls=3)] == [3, 3]
    assert all(len(cost.micros) == 2 for cost in of_pure_checks(2))


async def test_siblings_that_start_after_a_reply_of_the_first_read_tools_and_system_from_the_cache() -> None:
    assert (await sharing(1, siblings=3)).read == 1.0


async def test_siblings_that_start_at_the_same_moment_read_nothing_from_the_cache() -> None:
    assert (await sharing(3, siblings=3)).read == 0.0


def test_a_series_is_shown_with_its_percentiles_in_milliseconds() -> None:
    shown = series_table("what", [Series("it", [each / 1000 for each in range(101)])])

    assert shown.splitlines()[-1] == "| it | 101 | 50.00 | 99.00 | 0.00 | 100.00 |"


def test_an_unknown_measurement_is_refused_with_the_names_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])

    assert "hint: use one of dispatches, messages, checks, cache" in capsys.readouterr().err
