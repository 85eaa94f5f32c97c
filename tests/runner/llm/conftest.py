"""Fixtures of the tests of the LLM seam.

Owns: the environment a model is asked in. Must not know: which test asks.
Invariant: no test here sees a key or an endpoint of the machine it runs on.
"""

from importlib import import_module

import pytest

from tests.runner.llm.adapter import KEY


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_TEST_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)


@pytest.fixture(params=["wire", "sdk"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of requests: the wire, or the SDK, because the environment names a header of its own."""
    if request.param == "sdk":
        import_module("anthropic")  # in advance: that takes longer than some tests wait
        monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-team: platform")
    return str(request.param)
