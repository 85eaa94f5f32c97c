"""A service goes on with 150 executions as one does with ten thousand by `make faults`, where it is also timed."""

from pathlib import Path

import pytest

from tests.faults.recovery.recovering import finish, start
from tests.faults.recovery.wreck import TREE, make_wreck

TREES, SINGLES = 2, 100


@pytest.fixture(scope="module")
def wreck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed process left."""
    folder = tmp_path_factory.mktemp("wreck")
    assert make_wreck(folder, TREES, SINGLES) == TREES * TREE + SINGLES
    return folder


async def test_the_first_of_many_asks_its_model_while_most_still_wait_to_go_on(wreck: Path, tmp_path: Path) -> None:
    started = await start(wreck, tmp_path / "trial", TREES + SINGLES, fresh=False)

    assert started.gone_on < SINGLES / 2


async def test_all_that_was_left_comes_to_its_end_once_and_within_the_limits(wreck: Path, tmp_path: Path) -> None:
    finished = await finish(wreck, tmp_path / "trial", 10, TREES * TREE + SINGLES)

    assert finished.broken == []
    assert finished.completed == TREES * TREE + SINGLES
