"""strace, for tests that make a system call fail or check the order of calls."""

from __future__ import annotations

import shutil

import pytest

from tests.support.sources import ROOT

OURS = ROOT / ".servers" / "bin" / "strace"


def strace() -> str:
    """The path of the program. Fails the test, with a hint, if it is missing."""
    found = str(OURS) if OURS.exists() else shutil.which("strace")
    if found is None:
        pytest.fail("`strace` is missing\nhint: `make servers` installs it")
    return found
