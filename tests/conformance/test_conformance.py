"""The official suite, whole: one run of it takes less than starting it for a few chosen scenarios."""

from pathlib import Path

import pytest

from tests.conformance.judgement import judge, problems
from tests.conformance.page import PAGE, page


@pytest.mark.timeout(120)
async def test_every_scenario_that_applies_passes_in_both_revisions_and_for_tasks(tmp_path: Path) -> None:
    assert await problems(await judge(tmp_path)) == []


def test_the_page_of_conformance_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make conformance`"
