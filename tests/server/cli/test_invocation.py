"""A command that is printed for somebody to type works where it is read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shell import SCRIPT, Shell

SYSTEM = "/usr/bin:/bin"


def printed(shell: Shell, call: str, path: str = SYSTEM) -> list[str]:
    """The commands in backticks that a command line prints, run by a shell in the folder."""
    done = typed(shell, call, path)
    return re.findall(r"`([^`]*(?:ps|demo|show)\b[^`]*)`", done.stderr)


def typed(shell: Shell, line: str, path: str) -> subprocess.CompletedProcess[str]:
    environ = shell.surroundings(PATH=path)
    command = ["/bin/sh", "-c", line]
    return subprocess.run(command, cwd=shell.folder, env=environ, capture_output=True, text=True, timeout=40, check=False)


@pytest.fixture
def ran(shell: Shell) -> Shell:
    """A folder with an environment of its own in it, in which something was run with a database that is named."""
    (shell.folder / ".venv" / "bin").mkdir(parents=True)
    (shell.folder / ".venv" / "bin" / "outrider").symlink_to(SCRIPT)
    (shell.folder / "outrider").symlink_to(SCRIPT)
    assert shell.type("run", "Quick", "look", "--db", "my data.db").returncode == 0
    return shell


@pytest.mark.parametrize(
    ("called", "told"),
    [
        (".venv/bin/outrider", ".venv/bin/outrider"),
        ("./outrider", "./outrider"),
        (str(SCRIPT), str(SCRIPT)),
        (f"{sys.executable} -m outrider", f"{sys.executable} -m outrider"),
    ],
)
def test_a_printed_command_names_the_program_by_a_path_that_works(ran: Shell, called: str, told: str) -> None:
    [command] = printed(ran, f"{called} ps --db 'my data.db'")

    assert command == f"{told} --db 'my data.db' ps --all"
    again = typed(ran, command, SYSTEM)
    assert (again.returncode, "Quick" in again.stdout) == (0, True), again.stderr


def test_the_bare_name_is_printed_only_where_it_means_this_program(ran: Shell, tmp_path: Path) -> None:
    other = tmp_path / "other" / "outrider"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit 99\n")
    other.chmod(0o755)

    bare = f"{SCRIPT.parent}:{SYSTEM}"
    assert printed(ran, "outrider ps --db='my data.db'", bare) == ["outrider --db 'my data.db' ps --all"]
    hidden = f"{other.parent}:{SCRIPT.parent}:{SYSTEM}"
    assert printed(ran, f"{SCRIPT} show zzzz --db 'my data.db'", hidden) == [f"{SCRIPT} --db 'my data.db' ps --all"]


def test_commands_in_errors_in_help_and_in_examples_are_told_so_too(ran: Shell) -> None:
    assert typed(ran, "./outrider shwo", SYSTEM).stderr.endswith("hint: did you mean `./outrider show`?\n")
    assert 'For example: ./outrider run Investigator "' in typed(ran, "./outrider --help", SYSTEM).stdout
    listed = typed(ran, "./outrider sql --db 'my data.db'", SYSTEM).stdout
    example = next(line for line in listed.splitlines() if line.strip().startswith("./outrider"))
    assert typed(ran, example, SYSTEM).returncode == 0, example


def test_the_demonstration_is_told_with_the_database_in_use_and_without_a_configuration(ran: Shell) -> None:
    [command] = printed(ran, "./outrider ps --config config.yaml")

    assert command == f"./outrider --db {ran.folder}/.outrider/outrider.db demo"


def test_the_end_of_a_run_says_how_to_see_it_again(ran: Shell) -> None:
    done = typed(ran, "./outrider --db 'my data.db' run Quick look", SYSTEM)
    [again] = re.findall(r"`([^`]*)` shows it again", done.stderr)

    assert typed(ran, again, SYSTEM).stdout.startswith("execution  ")
    assert os.sep not in again.replace("./outrider", "")
