"""strace, for tests that let a system call fail or look at their order."""

from __future__ import annotations

import shutil

import pytest

from tests.support.sources import ROOT

OURS = ROOT / ".servers" / "bin" / "strace"


def strace() -> str:
    """The program; a test that needs it fails with a hint where it is missing."""
    found = str(OURS) if OURS.exists() else shutil.which("strace")
    if found is None:
        pytest.fail("`strace` is missing\nhint: `make servers` installs it")
    return found
