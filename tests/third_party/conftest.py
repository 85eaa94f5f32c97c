"""The place of the how-to page, with everything it needs installed."""

import os
from pathlib import Path

import pytest

from tests.third_party.place import PROGRAMS, SERVERS, Place, installed, prepare


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Place:
    """Folders for one test, and the installed servers with the Node that runs them first on the `PATH`."""
    installed(*PROGRAMS)
    monkeypatch.setenv("PATH", str(SERVERS / "bin"), prepend=os.pathsep)
    return prepare(tmp_path, caplog)
