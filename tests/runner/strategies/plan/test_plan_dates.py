"""Dates in plans: resolved once, before there is a plan, and the same in every task; in words where that cannot be done."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import babel
import pytest

from runner.llm.protocol import Request
from tests.runner.strategies.plan.planned import config, plan, roles, step, steps
from tests.support.models import Turn, call, say, shared
from tests.support.reading import answer, results, text_of
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

ZONE = "Pacific/Kiritimati"
"""Where it is tomorrow first: a date that was reckoned elsewhere is wrong here for most of the day."""
WORKERS = {"A": [say("alpha")], "B": [say("beta")], "C": [say("gamma")], "Composer": [say("all done")]}


def settings(locale: str = "en-US") -> str:
    return config() + f"users: {{alex: {{name: Alex, timezone: {ZONE}, locale: {locale}}}}}\n"


def tasks(service: Bench) -> list[str]:
    rows = service.sql("select task from executions where role = 'step' order by created_at, position")
    return [row["task"] for row in rows]


@requirement("S0-UT-1", "S0-UT-2", "S0-PL-1", "S0-UL-4", "S0-PL-2")
async def test_the_planner_resolves_dates_first_and_every_task_has_the_same(tmp_path: Path) -> None:
    def planned(request: Request) -> Turn:
        friday, now = answer(request, 0)["resolved"], answer(request, 1)
        assert (now["timezone"], now["now"][:10]) == (ZONE, f"{datetime.now(ZoneInfo(ZONE)):%Y-%m-%d}")
        planned = [step("step_1", "A", f"List events on {friday} (Friday)"), step("step_2", "B", f"Remind before {friday}")]
        return plan(*planned, resolvedValues={"dates": {"friday": friday}, "timeRanges": {}})

    planner = [call("resolve_date", phrase="friday") + call("get_current_time"), planned]
    async with bench(tmp_path, settings(), {**WORKERS, "Planner": planner}) as service:
        ended = await service.run("Assistant", "What is on friday? Remind me.", user="alex")

        assert ended.result is not None
        assert ended.result.outcome == "completed"
        [row] = service.sql("select resolved_values from plans")
        friday = json.loads(row["resolved_values"])["dates"]["friday"]
        assert datetime.fromisoformat(friday).weekday() == 4
        assert tasks(service) == [f"List events on {friday} (Friday)", f"Remind before {friday}"]
        assert service.model.of("A")[0].messages[0].text == tasks(service)[0]
        assert roles(service) == ["root", "planner", "step", "step", "composer"], "a date is nobody's errand"
        called = service.sql(
            "select tool, role from tool_calls join executions e on e.id = execution_id order by tool_calls.position"
        )
        assert [(row["tool"], row["role"]) for row in called] == [
            ("resolve_date", "planner"),
            ("get_current_time", "planner"),
        ]


@requirement("S0-UT-2", "S0-RP-5")
async def test_words_a_planner_left_in_its_tasks_get_their_date_and_are_known_again(tmp_path: Path) -> None:
    first = step("step_1", "A", "List events for tomorrow")
    planners = shared(
        plan(first, step("step_2", "B", "Remind me tomorrow, or every friday")),
        plan(first, step("step_2", "C", "Something else tomorrow")),
    )
    scripts = {**WORKERS, "B": [say('{"needsReplan": true}')], "Planner": planners}
    async with bench(tmp_path, settings(), scripts) as service:
        await service.run("Assistant", user="alex")

        tomorrow = f"{datetime.now(ZoneInfo(ZONE)) + timedelta(days=1):%Y-%m-%d} (tomorrow)"
        assert tasks(service) == [
            f"List events for {tomorrow}",
            f"Remind me {tomorrow}, or every friday",
            f"Something else {tomorrow}",
        ]
        assert len(service.model.of("A")) == 1, "the same step in the same words is the same step"


@requirement("S0-UT-6")
async def test_a_plan_is_made_in_the_words_of_the_user_where_dates_cannot_be_reckoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError("the locale data are gone")

    monkeypatch.setattr(babel.Locale, "parse", broken)
    planned = plan(step("step_1", "A", "List events on friday"), step("step_2", "B", "Remind me on friday"))
    planner = [call("resolve_date", phrase="friday"), planned]
    async with bench(tmp_path, settings("fi-FI"), {**WORKERS, "Planner": planner}) as service:
        ended = await service.run("Assistant", "What is on friday?", user="alex")

        [told] = results(service.model.of("Planner")[1])
        assert told["is_error"], text_of(told)
        assert steps(service) == {"step_1": "completed", "step_2": "completed"}
        assert tasks(service) == ["List events on friday", "Remind me on friday"]
        assert ended.result is not None
        warning = "dates were not resolved: they were passed on as written"
        assert ended.result.metadata["warnings"] == [warning]
        [event] = service.sql("select payload from events where type = 'context.degraded'")
        assert json.loads(event["payload"]) == {"layer": "dates", "message": warning}


async def test_a_phrase_that_means_no_day_is_kept_by_a_planner_that_was_told_so(tmp_path: Path) -> None:
    planner = [call("resolve_date", phrase="the third moon"), plan(step("step_1", "A", "Wait for the third moon"))]
    async with bench(tmp_path, settings(), {**WORKERS, "Planner": planner}) as service:
        await service.run("Assistant", user="alex")

        [told] = results(service.model.of("Planner")[1])
        assert re.search(r"no date could be found.*\n.*keep the phrase", text_of(told))
        assert tasks(service) == ["Wait for the third moon"]
