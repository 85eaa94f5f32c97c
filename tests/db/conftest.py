"""An open, empty database for every test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.db.store import Store, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A store on a fresh file."""
    async with open_store(tmp_path / "outrider.db") as opened:
        yield opened
