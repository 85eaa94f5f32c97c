"""One dispatch is a short walk: `tools/walk.py` counts the files it enters and how often it comes back to one."""

import re
import subprocess
import sys

import pytest

from tests.support.sources import ROOT

FILES, RETURNS = 57, 158
"""The longest walk of one dispatch. Lower these when the walk becomes shorter; never raise them."""

SPAWN = ("dispatch", "admit", "spawn", "enter", "create")
"""The functions that make a child of a tool call, in their order."""


def walked() -> list[str]:
    """The lines that the script prints for a dispatch."""
    command = [sys.executable, str(ROOT / "tools" / "walk.py"), "dispatch"]
    ended = subprocess.run(command, capture_output=True, check=False, encoding="utf-8", timeout=50)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """The walk, made once."""
    return walked()


def test_one_dispatch_enters_few_files_and_seldom_comes_back_to_one(lines: list[str]) -> None:
    last = re.fullmatch(r"(\d+) files, (\d+) returns", lines[-1])
    assert last is not None, lines[-1]
    files, returns = map(int, last.groups())
    assert (files <= FILES, returns <= RETURNS) == (True, True), f"{lines[-1]}, {lines[-2]}"


def test_the_walk_of_a_dispatch_leads_through_the_spawn(lines: list[str]) -> None:
    called = [name for line in lines for name in line.partition(": ")[2].split(", ")]
    assert set(SPAWN) <= set(called), called
    assert sorted(SPAWN, key=called.index) == list(SPAWN)
