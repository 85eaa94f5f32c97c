"""Standard streams as they come: closed, full, read by nobody, or unable to write what is drawn."""

import subprocess
from pathlib import Path

import pytest

from tests.support.shell import SCRIPT, SECONDS, Shell


def ran(shell: Shell) -> None:
    """Something to look at."""
    assert shell.type("run", "Quick", "look").returncode == 0


def sh(shell: Shell, line: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a line in bash, where `outrider` is ours."""
    function = f'set -o pipefail; outrider() {{ "{SCRIPT}" "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", function + line],
        cwd=shell.folder,
        env=shell.surroundings(**environ),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_the_end_of_a_run_without_a_reader_is_still_its_end(shell: Shell) -> None:
    done = sh(shell, "outrider run Broken look | true; echo ${PIPESTATUS[0]}")

    assert done.stdout == "1\n"
    assert "error: the model could not answer" in done.stderr


def test_closed_streams_are_no_trouble(shell: Shell) -> None:
    done = sh(shell, "outrider run Quick look <&- >&- 2>&-")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert shell.rows("select status from executions") == [{"status": "completed"}]
    assert shell.rows("pragma quick_check") == [{"quick_check": "ok"}]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_once(shell: Shell) -> None:
    ran(shell)

    done = sh(shell, "outrider ps --all >/dev/full")

    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write to standard output: no space left on device\n\nhint: ")
    assert done.stderr.count("error") == 1
    assert sh(shell, "outrider ps 2>/dev/full").returncode == 0
    for command in ("show zzzzzz --json", "ps --json --limit no"):
        failed = sh(shell, f"outrider {command} >/dev/full")
        assert failed.returncode in (2, 4)
        assert failed.stderr.startswith("error: ")
        assert "Traceback" not in failed.stderr


def test_where_shapes_cannot_be_written_plain_characters_stand_for_them(shell: Shell) -> None:
    assert shell.type("run", "look", "go").returncode == 0
    identifier = shell.rows("select id from executions where parent_execution_id is null")[0]["id"]

    shown = shell.type("show", identifier, "--tree", PYTHONIOENCODING="ascii").stdout.splitlines()

    assert shown[0].startswith("* look")
    assert shown[1].startswith("`- * Quick")


def test_a_locale_that_knows_no_shapes_will_do(shell: Shell) -> None:
    done = shell.type("run", "Quick", "grüße", LC_ALL="POSIX", LANG="POSIX")

    assert (done.returncode, done.stdout) == (0, "[rehearsed]\n\n# Finding\n\nat once\n")
