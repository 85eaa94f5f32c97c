"""A folder to type commands in."""

from pathlib import Path

import pytest

from tests.support.shell import Shell, make_shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell with a small rehearsed configuration, and nothing run yet."""
    return make_shell(tmp_path)
