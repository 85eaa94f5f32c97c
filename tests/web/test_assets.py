"""The files of the page: small, whole in what is installed, and checked by the tools that `make test` runs."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.sources import ROOT, relative, repository_files

STATIC = ROOT / "server" / "web" / "static"
LINES = 300
WEIGHT = 500_000


def assets() -> list[Path]:
    """The files that a browser is given."""
    return [file for file in repository_files() if file.is_relative_to(STATIC)]


def test_no_script_is_longer_than_three_hundred_lines() -> None:
    scripts = [file for file in repository_files() if file.suffix in {".js", ".mjs"}]
    long = {relative(file): size for file in scripts if (size := len(file.read_bytes().splitlines())) > LINES}

    assert scripts
    assert not long, f"split these by noun: {long}"


def test_all_files_of_the_page_together_weigh_less_than_half_a_megabyte() -> None:
    assert 0 < sum(file.stat().st_size for file in assets()) <= WEIGHT


def test_the_document_of_the_dashboard_names_files_that_are_there() -> None:
    named = re.findall(r'(?:href|src)="/static/([^"]+)"', (STATIC / "index.html").read_text(encoding="utf-8"))

    assert "js/shells/dashboard.js" in named
    assert [name for name in named if not (STATIC / name).is_file()] == []


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_installed_holds_every_file_of_the_page(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [built] = tmp_path.iterdir()
    if kind == "wheel":
        with zipfile.ZipFile(built) as wheel:
            held = {name: wheel.getinfo(name).file_size for name in wheel.namelist()}
    else:
        with tarfile.open(built) as sdist:
            held = {member.name.partition("/")[2]: member.size for member in sdist.getmembers()}

    assert {relative(file): file.stat().st_size for file in assets()}.items() <= held.items()


def test_where_the_tools_are_missing_the_check_of_the_page_fails_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    check = shutil.copy(ROOT / "tools" / "check-web.sh", tmp_path / "tools")

    done = subprocess.run([check], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: the scripts of the page cannot be checked: `node` is missing in `.servers`\nhint: "
    )


def test_make_test_checks_the_page() -> None:
    planned = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True)

    assert "tools/check-web.sh" in planned.stdout.splitlines()
