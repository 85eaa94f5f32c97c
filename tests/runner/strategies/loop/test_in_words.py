"""Data in words: what people are shown of an answer that is an object."""

from typing import Any

import pytest

from runner.strategies.loop.acceptance import in_words
from server.cli.terminal.output import gist


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"jobs": ["buy some milk"], "summary": "one job"}, "one job"),
        ({"nextTask": "read the files", "finished": False, "reasoning": "they come first"}, "read the files"),
        ({"success": False, "error": {"message": "there is no file"}}, "there is no file"),
        ({"summary": " ", "list": [{"name": "x"}, {"name": "a name"}]}, "a name"),
        ({"jobs": ["write"]}, '{"jobs":["write"]}'),
        ({}, "{}"),
        ([1, 2], "[1,2]"),
    ],
)
def test_an_object_is_shown_by_its_summary_or_its_first_words(value: Any, shown: str) -> None:
    assert in_words(value) == shown


def test_data_of_any_depth_has_words() -> None:
    deep: Any = "at last"
    for _ in range(5_000):
        deep = [deep]

    assert in_words(deep) == "at last"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"nextTask": "read the files", "finished": false}', "read the files"),
        ('{"nextTask": "read the files", "finished": false, "reasoning": "they co…', "read the files"),
        ("{ braces that are no data", "{ braces that are no data"),
        ("# Title\n\n**bold** words", "bold words"),
    ],
)
def test_the_tree_shows_an_object_in_words_also_when_it_is_cut(text: str, shown: str) -> None:
    assert gist(text) == shown
