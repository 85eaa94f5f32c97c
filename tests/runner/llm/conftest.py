"""Fixtures of the tests of the LLM seam.

Owns: the environment a model is asked in. Must not know: which test asks.
Invariant: no test here sees a key or an endpoint of the machine it runs on.
"""

import pytest

from tests.runner.llm.adapter import KEY


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_TEST_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
