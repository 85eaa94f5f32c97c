"""Fixtures of the SRE tests: the other incident, written once, in which everything that can differ does."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools.incident.record import write_incident
from tools.incident.story import Story

OTHER_STORY = Story(
    seed=7,
    namespace="store",
    started_at=datetime(2027, 2, 3, 6, 0, tzinfo=UTC),
    culprit="pricing",
    victim="catalog",
    deployed_at=datetime(2027, 2, 3, 7, 26, 40, tzinfo=UTC),
    new_version="1.31.0",
    template_hash="5d4c7b9f8",
    first_pod="wm2xk",
    setting="DATABASE_CONNECTIONS",
    pool_before=24,
    pool_after=8,
)


@pytest.fixture(scope="session")
def other_incident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another story, written to a folder of its own."""
    folder = tmp_path_factory.mktemp("incident")
    write_incident(folder, OTHER_STORY)
    return folder
