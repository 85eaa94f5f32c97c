"""The date tools: `resolve_date`, `resolve_time_range`, `get_current_time`, in a user's time zone and locale.

Owns their texts for models. Has no clock: `now` is in the user's time zone. Invariant: a phrase that cannot be resolved is
an error that tells the model to keep the phrase, so that no plan fails for want of a date.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import Field

from runner.dates.calendar import LONGEST
from runner.dates.dates import resolve_date, resolve_time_range
from runner.dates.locale import DAYS
from runner.messages import ToolCall
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult

RESOLVE_DATE = "Find the ISO date and weekday of a day in the user's words, in the user's time zone."
RESOLVE_TIME_RANGE = "Find start and end, as ISO timestamps, of a time in the user's words, in the user's time zone."
GET_CURRENT_TIME = "Tell the current date and time in the user's time zone."


class DateArguments(Arguments):
    phrase: str = Field(
        min_length=1,
        max_length=LONGEST,
        description="A day as the user said it: `friday`, `next tuesday`, `in 3 days`, `January 30`, `מחר`.",
    )


class RangeArguments(Arguments):
    phrase: str = Field(
        min_length=1,
        max_length=LONGEST,
        description="A time as the user said it: `this week`, `next month`, `this weekend`, `monday to friday`, `השבוע`.",
    )


class NoArguments(Arguments):
    """No arguments."""


def utility_tools(now: Callable[[], datetime], locale: str) -> list[OwnTool[Any]]:
    """The three tools for a user whose clock is `now`."""

    async def date(_call: ToolCall, arguments: DateArguments) -> ToolResult:
        found = resolve_date(arguments.phrase, now(), locale)
        if found is not None:
            return answer({"resolved": found.iso, "dayOfWeek": found.day_of_week})
        if resolve_time_range(arguments.phrase, now(), locale) is not None:
            return refuse("unresolved", "the phrase names several days", "call `resolve_time_range`", ran=True)
        return refuse("unresolved", "no date could be found for the phrase", "keep the phrase", ran=True)

    async def time_range(_call: ToolCall, arguments: RangeArguments) -> ToolResult:
        found = resolve_time_range(arguments.phrase, now(), locale)
        if found is not None:
            return answer({"start": found.start, "end": found.end})
        return refuse("unresolved", "no time range could be found for the phrase", "keep the phrase", ran=True)

    async def current_time(_call: ToolCall, _arguments: NoArguments) -> ToolResult:
        moment = now()
        shown = {
            "now": moment.isoformat(timespec="seconds"),
            "dayOfWeek": DAYS[moment.weekday()],
            "timezone": str(moment.tzinfo),
        }
        return answer(shown)

    return [
        OwnTool("resolve_date", RESOLVE_DATE, DateArguments, date),
        OwnTool("resolve_time_range", RESOLVE_TIME_RANGE, RangeArguments, time_range),
        OwnTool("get_current_time", GET_CURRENT_TIME, NoArguments, current_time),
    ]
