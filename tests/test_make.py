"""What `make` shows: how far an installation is, and the examples, each under a heading of its own."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT

PIP = """\
import sys
print("Collecting anyio==4.16.0 (from -r requirements.lock (line 1))")
print("  Downloading anyio-4.16.0-py3-none-any.whl (1 kB)")
print("Requirement already satisfied: rich==15.0 in somewhere")
print("Installing collected packages: anyio")
if "FAIL" in __import__("os").environ:
    print("ERROR: no such file", file=sys.stderr)
    sys.exit(3)
"""


@pytest.fixture
def installing(tmp_path: Path) -> dict[str, str]:
    """Surroundings in which pip is played."""
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "pip" / "__main__.py").write_text(PIP)
    pins = ("anyio==4.16.0", "rich==15.0")
    (tmp_path / "requirements.lock").write_text("".join(f"{pin} \\\n    --hash=sha256:0\n" for pin in pins))
    (tmp_path / "compileall.py").write_text("")
    return {"PYTHONPATH": str(tmp_path), "TERM": "xterm"}


def install(environ: dict[str, str], stderr: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "install.py"],
        cwd=environ["PYTHONPATH"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=False,
    )


def test_an_installation_tells_its_phases_and_counts_packages_on_a_terminal(installing: dict[str, str]) -> None:
    master, slave = pty.openpty()
    done = install(installing, slave)
    os.close(slave)
    seen = os.read(master, 65536).decode()
    os.close(master)

    assert (done.returncode, done.stdout) == (0, "")
    order = ["dependencies … 1 of 2 (anyio)", "dependencies … 2 of 2 (rich)", "dependencies … putting 1 in place"]
    order += ["dependencies: 2 locked packages, 0 s", "outrider: installed", "bytecode: compiled"]
    assert [seen.index(each) for each in order] == sorted(seen.index(each) for each in order)


def test_an_installation_is_a_few_lines_in_a_log_and_shows_what_pip_said_when_it_fails(installing: dict[str, str]) -> None:
    done = install(installing, subprocess.PIPE)
    assert len(done.stderr.splitlines()) == 6
    assert "\x1b" not in done.stderr

    failed = install({**installing, "FAIL": "1"}, subprocess.PIPE)
    assert failed.returncode == 3
    assert "dependencies: failed" in failed.stderr
    assert "ERROR: no such file" in failed.stderr


def play(*names: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "tools" / "play.sh", *names], capture_output=True, text=True, timeout=50, check=False)


def test_one_example_is_played_under_its_heading() -> None:
    done = play("nested")

    assert done.returncode == 0, done.stderr
    about = (ROOT / "examples" / "nested" / "config.yaml").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    assert done.stdout.startswith(f'\n══ nested (1 of 1) ══\n{about}\n\n$ outrider run Desk "How are the lighthouses?"\n')
    assert "[rehearsed] Beacon Point: all is well" in done.stdout


def test_the_help_names_every_example_and_others_are_refused() -> None:
    names = sorted(file.parent.name for file in (ROOT / "examples").glob("*/config.yaml"))
    shown = subprocess.run(["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True).stdout

    [line] = [line for line in shown.splitlines() if line.strip().startswith("make example-NAME")]
    assert sorted(re.findall(r"\w+", line.split("them: ")[1].replace(" or ", " "))) == names
    refused = play("nosuch")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: no example `nosuch`\n\nhint: there are ")
    assert all(name in refused.stderr for name in names)
