"""Commands as tests run them: forked ones are what fresh ones are, know nothing of each other, and leave nothing behind."""

import subprocess

import psutil
import pytest

from tests.support.forked import FORK_SERVERS, ForkServer, fork_server
from tests.support.shell import SCRIPT, SECONDS, Shell, make_shell

COMMANDS = (
    ("--help",),
    ("agents",),
    ("cancel", "1"),
    ("completion", "bash"),
    ("config", "check"),
    ("config", "show"),
    ("demo", "--nonsense"),
    ("ps",),
    ("show", "1"),
    ("sql", "select status, task from executions"),
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell in which something was run, by the console script itself."""
    shell = make_shell(tmp_path_factory.mktemp("shell"))
    done = shell.type("run", "Quick", "look", fresh=True)
    assert (done.returncode, done.stdout) == (0, "[rehearsed]\n\n# Finding\n\nat once\n")
    return shell


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_forked_command_says_what_the_console_script_says(ran: Shell, words: tuple[str, ...]) -> None:
    forked, fresh = ran.type(*words), ran.type(*words, fresh=True)

    assert (forked.returncode, forked.stdout, forked.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)


def test_a_variable_of_one_command_does_not_reach_the_next(shell: Shell) -> None:
    assert shell.type("ps", OUTRIDER_DATABASE_URL="mysql://somewhere/else").stderr.startswith("error: no database driver")
    assert shell.type("ps").stderr.startswith("error: no database at ")


def test_a_command_that_takes_too_long_is_killed_with_its_group_and_the_next_one_runs(shell: Shell) -> None:
    gate = shell.gate("gate")
    words = [str(SCRIPT), "config", "check", str(gate)]  # nobody writes into it

    with pytest.raises(subprocess.TimeoutExpired):
        fork_server().run(words, shell.folder, shell.surroundings(), "", 0.5)

    assert shell.type("config", "check").returncode == 0
    forking = [psutil.Process(pid) for pid in FORK_SERVERS]
    assert {(len(each.children(recursive=True)), each.num_threads()) for each in forking} == {(0, 1)}


def test_the_process_that_forks_ends_when_no_process_can_ask_it_any_more(shell: Shell) -> None:
    others = set(FORK_SERVERS)
    server = ForkServer()
    (process,) = (psutil.Process(pid) for pid in FORK_SERVERS - others)
    assert server.run([str(SCRIPT), "--version"], shell.folder, shell.surroundings(), "", SECONDS).returncode == 0

    server.close()

    assert not process.is_running()
    assert others == FORK_SERVERS
