"""The tutorial of the dashboard: its commands typed as they stand, its steps walked in a browser, its pictures there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.web.tutorial import COMPARE, FIRST_HALF, PAGE, PICTURES, walking
from tests.web.windows import Windows

MOST_BYTES = 120_000


@pytest.mark.timeout(180)
async def test_a_reader_finds_every_answer_of_the_tutorial_on_the_page(windows: Windows, tmp_path: Path) -> None:
    async with walking(tmp_path, windows) as walk:
        for step in FIRST_HALF:
            await step.does(walk.page)
        await walk.repair()
        await COMPARE.does(walk.page)


def test_each_step_has_its_heading_and_each_picture_its_file() -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"\]\(\.\./pictures/([\w-]+)\.png\)", page)

    assert [step.heading for step in (*FIRST_HALF, COMPARE)] == re.findall(r"^## (.+)$", page, re.MULTILINE)[1:-1]
    assert shown == [step.picture for step in (*FIRST_HALF, COMPARE) if step.picture]
    assert [name for name in shown if not 10_000 < (PICTURES / f"{name}.png").stat().st_size <= MOST_BYTES] == []
