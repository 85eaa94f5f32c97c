"""What the tests of the registry share: loading a configuration written in the test.

Owns: the temporary file. Must not know: what a test expects. Invariant: the environment is only what the test gives.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from registry import ConfigError, ConfigProblem, Settings, StagePlace, load

Load = Callable[..., Settings]
Problems = Callable[..., tuple[ConfigProblem, ...]]


def first_place(settings: Settings, chain: str) -> StagePlace:
    """Return the place of the first agent of a chain."""
    spec = settings.chain(chain)
    return StagePlace(spec, spec.stages[0], spec.stages[0].agents[0])


@pytest.fixture
def load_yaml(tmp_path: Path) -> Load:
    """Load a configuration from its text."""

    def load_text(text: str, environ: Mapping[str, str] | None = None) -> Settings:
        file = tmp_path / "config.yaml"
        file.write_text(dedent(text), encoding="utf-8")
        return load(file, environ or {})

    return load_text


@pytest.fixture
def problems_of(load_yaml: Load) -> Problems:
    """Load a configuration that must be refused, and return its problems."""

    def refused(text: str, environ: Mapping[str, str] | None = None) -> tuple[ConfigProblem, ...]:
        with pytest.raises(ConfigError) as caught:
            load_yaml(text, environ)
        return caught.value.problems

    return refused
