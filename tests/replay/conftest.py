"""A finished demo, and its bundle."""

from pathlib import Path

import pytest

from tests.support.shell import Shell, make_shell


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shell, str]:
    """A shell with a finished demo, and its id."""
    shell = make_shell(tmp_path_factory.mktemp("demo"))
    assert shell.type("demo", "--fast").returncode == 0
    return shell, shell.rows("select id from executions where parent_execution_id is null")[0]["id"]


@pytest.fixture(scope="module")
def bundle(demo: tuple[Shell, str]) -> Path:
    """The demo in a file."""
    shell, identifier = demo
    done = shell.type("export", identifier, "--json", "demo.json")
    assert done.returncode == 0, done.stderr
    return shell.folder / "demo.json"
