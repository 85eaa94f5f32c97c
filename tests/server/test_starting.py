"""Outrider starts with its own packages, whatever else bears their names; where it cannot, it says so in words."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shell import Shell, make_shell
from tests.support.sources import ROOT
from tests.test_packaging import project

OURS = ("db", "outrider_sre", "registry", "runner", "server")
SCRIPT = "import sys; from outrider.__main__ import main; sys.exit(main())"
"""What an installer makes of the console script."""


def start(shell: Shell, *words: str, path: Path | None = None, module: bool = False) -> subprocess.CompletedProcess[str]:
    """Call it as the console script does, or as a module; both with something on `PYTHONPATH`."""
    how = ["-m", "outrider"] if module else ["-P", "-c", SCRIPT]
    return subprocess.run(
        [sys.executable, *how, *words],
        cwd=shell.folder,
        env=shell.surroundings(PYTHONPATH=str(path or "")),
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )


def package(folder: Path, name: str, code: str = "raise RuntimeError('this is not Outrider')\n") -> Path:
    """A package of somebody else."""
    made = folder / name
    made.mkdir(parents=True)
    (made / "__init__.py").write_text(code)
    return made


def test_the_console_script_starts_in_a_module_with_a_name_of_our_own() -> None:
    assert project()["project"]["scripts"] == {"outrider": "outrider.__main__:main"}


@pytest.mark.parametrize("module", [False, True])
def test_packages_of_the_same_names_on_the_path_and_in_the_folder_do_no_harm(tmp_path: Path, module: bool) -> None:
    shell = make_shell(tmp_path)
    for name in OURS:
        package(tmp_path / "theirs", name)
        package(tmp_path, name)

    done = start(shell, "run", "Quick", "look", path=tmp_path / "theirs", module=module)

    assert (done.returncode, done.stdout) == (0, "[rehearsed]\n\n# Finding\n\nat once\n"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with Outrider installed in it, and a record of what belongs to it."""
    made = tmp_path / "site"
    shutil.copytree(ROOT / "outrider", made / "outrider")
    record = made / "outrider-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    for name in OURS:
        (made / name).symlink_to(ROOT / name)
        with record.open("a") as lines:
            lines.write(f"{name}/__init__.py,sha256=x,{(ROOT / name / '__init__.py').stat().st_size}\n")
    return made


def test_an_installation_that_is_whole_starts(shell: Shell, site: Path) -> None:
    assert start(shell, "--version", path=site).stdout.startswith("outrider ")


def test_a_package_over_which_another_was_installed_is_told_by_name(shell: Shell, site: Path) -> None:
    (site / "db").unlink()
    package(site, "db")
    record = site / "dbtools-3.1.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("db/__init__.py,sha256=x,1\n")

    done = start(shell, "ps", path=site)
    told = start(shell, "ps", "--json", path=site)

    assert (done.returncode, done.stdout) == (2, "")
    where = f"the package `db` in `{site}` is not Outrider's: `dbtools` has put its own in its place"
    assert done.stderr.startswith(f"error: {where}\n\nhint: install Outrider in an environment of its own")
    assert (told.returncode, told.stderr) == (2, done.stderr)
    assert json.loads(told.stdout)["error"]["message"] == where


def test_an_installation_that_lacks_a_module_is_told(shell: Shell, site: Path) -> None:
    (site / "server").unlink()
    package(site, "server", "")

    done = start(shell, "ps", path=site)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"error: Outrider's installation in `{site}` is not whole: No module named 'server.cli'\n"
    )
    assert "hint: install Outrider once more" in done.stderr


def test_a_package_that_is_missing_is_told(shell: Shell, site: Path) -> None:
    (site / "registry").unlink()
    (site / "registry").mkdir()

    done = start(shell, "ps", path=site)

    assert done.returncode == 2
    assert done.stderr.startswith(f"error: the package `registry` is missing where Outrider is installed, in `{site}`\n")
    assert "hint: install Outrider once more" in done.stderr


def test_a_package_that_something_imported_before_is_told(shell: Shell, tmp_path: Path) -> None:
    theirs = package(tmp_path / "theirs", "server", "")
    (tmp_path / "theirs" / "sitecustomize.py").write_text("import server\n")

    done = start(shell, "ps", path=tmp_path / "theirs")

    assert done.returncode == 2
    assert f"error: `server` was imported from `{theirs}{os.sep}__init__.py` before Outrider could start" in done.stderr
    assert "hint: " in done.stderr


def test_looking_for_a_clash_imports_nothing_slow(shell: Shell, site: Path) -> None:
    code = "import sys; from outrider.__main__ import claim_packages; claim_packages(); print(*sys.modules)"

    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True
    )

    assert not {*OURS, "hashlib", "importlib.metadata", "json", "typer"} & set(done.stdout.split())


def test_a_function_that_needs_a_package_whose_name_is_taken_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "figures.py").write_text("from server.models import Figure\n")
    package(tmp_path, "server", "")
    shell = make_shell(tmp_path, "agents: {Add: {function: 'figures:add'}}\n")

    done = start(shell, "config", "check")

    assert done.returncode == 2
    assert "`figures` needs `server.models`, but `server` is " in done.stderr
    assert "hint: give your module `server` another name" in done.stderr
