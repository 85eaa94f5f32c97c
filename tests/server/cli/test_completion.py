"""Shells complete what is typed: commands, options, names and executions, as bash shows and zsh and fish are told."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shell import SCRIPT, Shell

BASH = """\
source <(outrider completion bash)
read -ra COMP_WORDS <<<"$1"; [[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _outrider outrider; printf '%s\\n' "${COMPREPLY[@]}"
"""


def typed(shell: Shell, line: str) -> list[str]:
    """What bash itself offers for a line."""
    path = f"{Path(SCRIPT).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/bash", "--norc", "-c", BASH, "bash", line],
        cwd=shell.folder,
        env=shell.surroundings(PATH=path),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_completes_commands_and_names(shell: Shell) -> None:
    assert typed(shell, "outrider s") == ["serve", "show", "sql"]
    assert typed(shell, "outrider run L") == ["Lead", "Lonely"]


@pytest.mark.parametrize(("kind", "separator"), [("zsh", ":"), ("fish", "\t")])
def test_zsh_and_fish_are_told_what_each_candidate_is(shell: Shell, kind: str, separator: str) -> None:
    script = shell.type("completion", kind)
    told = shell.type("s", OUTRIDER_COMPLETE=kind)

    assert f"OUTRIDER_COMPLETE={kind}" in script.stdout
    assert [line.split(separator)[0] for line in told.stdout.splitlines()] == ["serve", "show", "sql"]
    assert all(line.split(separator)[1] for line in told.stdout.splitlines())


def asked(shell: Shell, *words: str) -> list[str]:
    """What a shell gets for these words, the last of them unfinished."""
    done = shell.type(*words, OUTRIDER_COMPLETE="bash")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_every_kind_of_word_is_completed(shell: Shell) -> None:
    assert shell.type("run", "look", "go").returncode == 0
    top, below = (row["id"] for row in shell.rows("select id from executions order by id"))

    assert asked(shell, "show", "") == [top[-6:], below[-6:]]
    assert asked(shell, "show", below[-6:-1]) == [below[-6:]]
    assert asked(shell, "show", below[:-1]) == [below]
    assert asked(shell, "config", "sh") == ["show"]
    assert asked(shell, "run", "lo") == ["look"]
    assert asked(shell, "ps", "--a") == ["--all"]
    assert asked(shell, "install", "claude") == ["claude-desktop", "claude-code"]
    assert asked(shell, "completion", "") == ["bash", "zsh", "fish"]


def test_only_open_executions_are_offered_for_cancelling(shell: Shell) -> None:
    assert shell.type("run", "Quick", "go").returncode == 0

    assert len(asked(shell, "show", "")) == 1
    assert asked(shell, "cancel", "") == []


def test_the_files_that_the_words_name_are_looked_into(shell: Shell) -> None:
    shell.folder.joinpath("other.yaml").write_text("agents: {Other: {description: another}}\n", encoding="utf-8")
    assert shell.type("run", "Quick", "go", "--db", "other.db").returncode == 0

    assert asked(shell, "--config", "other.yaml", "run", "O") == ["Other"]
    assert len(asked(shell, "show", "--db", "other.db", "")) == 1


@pytest.mark.parametrize("words", [("run", "Q"), ("show", "1"), ("show", "'; drop"), ("nonsense", ""), ("ps", "--db", "")])
def test_a_shell_is_never_answered_with_an_error(shell: Shell, words: tuple[str, ...]) -> None:
    shell.folder.joinpath("config.yaml").write_text("agents: [", encoding="utf-8")

    assert asked(shell, *words) == []


def test_completing_a_command_imports_nothing_heavy(shell: Shell) -> None:
    code = "import sys; from server.cli.main import main; main(['s']); print(*sys.modules, file=sys.stderr)"

    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        env=shell.surroundings(OUTRIDER_COMPLETE="bash"),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["serve", "show", "sql"]
    assert not {"mcp", "anthropic", "sqlalchemy", "anyio", "pydantic", "registry", "rich"} & set(done.stderr.split())


def test_a_shell_without_a_script_is_refused(shell: Shell) -> None:
    done = shell.type("completion", "tcsh")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: no completion for the shell `tcsh`\n\nhint: there is one for `bash`, `zsh` and `fish`\n"
