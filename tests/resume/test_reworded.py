"""Rewording: every sentence of ours that a model or a client reads may change, also between two lives of one tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.compaction import summary
from runner.core import execution
from runner.prompt import deliveries
from runner.strategies import retries
from runner.strategies.loop import notes
from runner.strategies.plan import answer
from runner.tools.builtin import refuse
from runner.tools.upstream import http_response
from server.mcp_face.calls import wire
from tests.resume.test_old_database import EXPECTED, resume_all, unpack
from tests.runner.compaction.test_long_conversations import (
    test_wherever_a_crash_cuts_it_the_next_request_is_the_one_it_would_have_made as crashes_anywhere,
)
from tests.runner.strategies.plan.planned import B, config, plan
from tests.support.models import fail
from tests.support.service import bench
from tests.support.upstream_specs import call, opened, raw_http

OTHER = "Quite other words"
SENTENCES = (
    (deliveries, "SPOKEN"),
    (execution, "CARRY_ON"),
    (notes, "GO_ON"),
    (notes, "IN_TIME"),
    (notes, "SAY_SOMETHING"),
    (retries, "AGAIN"),
    (summary, "SUMMARISE"),
    (summary, "_AT_WORK"),
    (summary, "_CITED"),
    (summary, "_ENDED"),
    (summary, "_LEAD"),
    (summary, "_OTHERS"),
)
TABLES = ((deliveries, "_REASONS"), (notes, "CONCLUDE"), (notes, "COUNTDOWN"))


def reword(patch: pytest.MonkeyPatch, *spared: str) -> None:
    """Say everything in other words; `spared` are those that a script of the cast reads."""
    for module, name in SENTENCES:
        if name not in spared:
            patch.setattr(module, name, f"{OTHER} ({name}).")
    for module, name in TABLES:
        table = getattr(module, name)
        patch.setattr(module, name, dict.fromkeys(table, f"{OTHER} ({name})."))


async def test_interrupted_trees_come_to_the_same_answers_in_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reword(monkeypatch, "AGAIN")
    unpack(tmp_path)

    resumed = await resume_all(tmp_path)

    assert (resumed.adopted, resumed.open, resumed.unread) == (len(EXPECTED), [], [])
    assert resumed.trees == EXPECTED


async def test_a_compacted_conversation_is_cut_anywhere_and_goes_on_in_other_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reword(monkeypatch, "SUMMARISE")  # by which the scripted API knows what is asked of it

    await crashes_anywhere(tmp_path)


def test_a_client_is_told_the_parts_of_an_error_as_data_whatever_its_sentences_say() -> None:
    told = wire("get_result", refuse("not_found", f"{OTHER}: hint: not this one", f"{OTHER}\nerror: nor this"))

    assert told.is_error
    assert told.meta is not None
    [said] = [value for value in told.meta.values() if isinstance(value, dict)]
    assert (said["type"], said["message"], said["hint"]) == (
        "not_found",
        f"{OTHER}: hint: not this one",
        f"{OTHER}\nerror: nor this",
    )


async def test_an_error_that_a_plan_passes_on_is_recorded_once_in_any_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer, "STEP_FAILED", OTHER)
    refused = fail("invalid", "no", recoverable=False)
    scripts = {"B": [refused], "Planner": [plan(B)], "Composer": [refused]}
    async with bench(tmp_path, config("max_replans: 0"), scripts) as service:
        ended = await service.run("Assistant")

        assert ended.result is not None
        assert (ended.status, ended.result.errors[0].message) == ("failed", OTHER)

    # Error records follow the end in a later transaction; a closed service has written them all.
    recorded = service.sql("select agent from error_records join executions on execution_id = executions.id")
    assert sorted(row["agent"] for row in recorded) == ["B", "Composer"]


async def test_the_reason_of_a_lost_call_is_told_whatever_the_error_of_the_transport_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_response, "THE_SERVER", OTHER)
    with raw_http() as web:
        async with opened(web.spec("short_body", "hostile"), default_timeout=6.0) as here:
            tools = here.tools()
            await tools.list_tools()
            result = await call(tools, "hostile__poke")

    assert result.error_type == "unavailable"
    assert "broke off" in result.text
    assert OTHER not in result.text
