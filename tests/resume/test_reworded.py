"""Rewording: every sentence of ours that a model or a client reads may change, also between two lives of one tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.compaction import summary
from runner.core import execution
from runner.prompt import deliveries
from runner.strategies import retries
from runner.strategies.loop import notes
from runner.tools.builtin import refuse
from server.mcp_face.tools import wire
from tests.resume.test_old_database import EXPECTED, resume_all, unpack
from tests.runner.compaction.test_long_conversations import (
    test_wherever_a_crash_cuts_it_the_next_request_is_the_one_it_would_have_made as crashes_anywhere,
)

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
