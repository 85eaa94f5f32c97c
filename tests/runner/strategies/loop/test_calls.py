"""Calls: how a message that begins with `/` is read."""

from typing import Any

import pytest

from registry import ArgumentSpec, CommandSpec
from runner.strategies.route.commands.parse import read_call
from tests.support.requirement import requirement

COMMANDS = {
    each.name: each
    for each in (
        CommandSpec("task", arguments=(ArgumentSpec("title"),)),
        CommandSpec(
            "set-state",
            arguments=(
                ArgumentSpec("state", "choice", choices=("open", "done")),
                ArgumentSpec("items", "items"),
                ArgumentSpec("how", "choice", required=False, choices=("fast", "slow"), default="fast"),
                ArgumentSpec("why", required=False),
            ),
        ),
    )
}


@requirement("S1-ST1-1", "S1-ST1-3")
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('/task "Create test task"', {"title": "Create test task"}),
        ("/TASK Don't panic", {"title": "Don't panic"}),
        ('/task "a" and "b"', {"title": '"a" and "b"'}),
        ("  /task\nover two\nlines ", {"title": "over two\nlines"}),
        ("/task $ARGUMENTS {{ x }}", {"title": "$ARGUMENTS {{ x }}"}),
        ("/set_state DONE 3", {"state": "done", "items": [3], "how": "fast", "why": None}),
        ("/set-state open 3, #5 - 7,5 slow", {"state": "open", "items": [3, 5, 6, 7], "how": "slow", "why": None}),
        ("/set-state open 3-3 because 4", {"state": "open", "items": [3], "how": "fast", "why": "because 4"}),
    ],
)
def test_arguments_are_read_in_their_order(text: str, values: dict[str, Any]) -> None:
    assert read_call(text, COMMANDS).values == values


def test_a_call_for_one_of_its_items_says_the_rest_as_well() -> None:
    call = read_call("/set-state done 3,5 slow at last", COMMANDS)
    assert call.numbers == (3, 5)
    assert call.about(5) == "/set-state done 5 slow at last"
