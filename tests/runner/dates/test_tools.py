"""The date tools as a model calls them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runner.dates.tools import utility_tools
from runner.messages import Tool, ToolCall
from runner.tools.builtin import OwnTools
from runner.tools.protocol import ToolResult
from tests.support.requirement import requirement

NOW = datetime(2026, 1, 28, 23, 30, 15, tzinfo=ZoneInfo("America/Los_Angeles"))


def tools(zone: str = "America/Los_Angeles", locale: str = "en-US") -> OwnTools:
    """The tools of a person in a zone; the moment is always the same."""
    return OwnTools(utility_tools(lambda: NOW.astimezone(ZoneInfo(zone)), locale))


async def ask(name: str, zone: str = "America/Los_Angeles", locale: str = "en-US", **arguments: Any) -> ToolResult:
    """Call one of them."""
    return await tools(zone, locale).call(ToolCall("call_1", name, arguments))


@requirement("S0-UL-1", "S0-UT-5")
async def test_a_date_is_resolved_in_the_persons_time_zone() -> None:
    here = await ask("resolve_date", phrase="friday")
    there = await ask("resolve_date", "Asia/Jerusalem", "he-IL", phrase="מחר")

    assert here.structured == {"resolved": "2026-01-30", "dayOfWeek": "Friday"}
    assert here.text == '{"resolved":"2026-01-30","dayOfWeek":"Friday"}'
    assert there.structured == {"resolved": "2026-01-30", "dayOfWeek": "Friday"}  # it is the 29th in Jerusalem


@requirement("S0-UL-2", "S0-UT-5")
async def test_a_range_has_a_start_and_an_end_with_offsets() -> None:
    week = await ask("resolve_time_range", "Asia/Jerusalem", "he-IL", phrase="this week")

    assert week.structured == {"start": "2026-01-25T00:00:00+02:00", "end": "2026-01-31T23:59:59+02:00"}


@requirement("S0-UL-3", "S0-UT-5")
async def test_the_current_time_is_the_persons() -> None:
    here, there = await ask("get_current_time"), await ask("get_current_time", "Asia/Jerusalem")

    assert here.structured == {
        "now": "2026-01-28T23:30:15-08:00",
        "dayOfWeek": "Wednesday",
        "timezone": "America/Los_Angeles",
    }
    assert there.structured == {"now": "2026-01-29T09:30:15+02:00", "dayOfWeek": "Thursday", "timezone": "Asia/Jerusalem"}


@pytest.mark.parametrize("name", ["resolve_date", "resolve_time_range"])
async def test_what_cannot_be_resolved_is_an_error_that_says_to_keep_the_words(name: str) -> None:
    answered = await ask(name, phrase="when the cows come home")

    assert answered.is_error
    assert answered.error_type == "unresolved"
    assert answered.text.endswith("hint: keep the phrase")


async def test_who_asks_for_the_date_of_a_range_is_sent_to_the_other_tool() -> None:
    answered = await ask("resolve_date", phrase="next week")

    assert answered.text == "error: the phrase names several days\nhint: call `resolve_time_range`"


async def test_all_of_them_only_read_and_take_nothing_but_their_phrase() -> None:
    listed: Sequence[Tool] = await tools().list_tools()

    assert [tool.name for tool in listed] == ["resolve_date", "resolve_time_range", "get_current_time"]
    assert {tool.effect for tool in listed} == {"read_only"}
    assert (await ask("get_current_time", timezone="UTC")).error_type == "invalid_arguments"
