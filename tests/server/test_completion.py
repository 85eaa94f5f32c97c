"""Shells complete what is typed: commands, options, agents, chains and executions, in bash, zsh and fish themselves."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.shell import SCRIPT, Shell

FISH = 'outrider completion fish | source; complete -C "$argv"'
BASH = """\
source <(outrider completion bash)
read -ra COMP_WORDS <<<"$1"; [[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _outrider outrider; printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """\
compdef() { }
_describe() { print -rl -- "${(@P)argv[-1]}" }
_files() { print -r -- files }
eval "$(outrider completion zsh)"
words=("${(@s: :)1}"); CURRENT=$#words; _outrider
"""


def typed(shell: Shell, kind: str, line: str) -> list[str]:
    """The candidates for a line, without what is said about them."""
    program = shutil.which(kind)
    assert program is not None
    command = {"bash": ["--norc", "-c", BASH, "bash"], "zsh": ["-f", "-c", ZSH, "zsh"], "fish": ["-N", "-c", FISH]}[kind]
    path = f"{Path(SCRIPT).parent}:{Path(program).parent}:/usr/bin:/bin"
    done = subprocess.run(
        [program, *command, line],
        cwd=shell.folder,
        env=shell.surroundings(PATH=path),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    separator = ":" if kind == "zsh" else "\t"
    return [each.split(separator)[0] for each in done.stdout.splitlines() if each]


def test_shells_complete_commands_and_names(shell: Shell) -> None:
    for kind in filter(shutil.which, ("bash", "zsh", "fish")):
        assert typed(shell, kind, "outrider s") == ["show", "sql"], kind
        assert typed(shell, kind, "outrider run L") == ["Lead", "Lonely"], kind


def asked(shell: Shell, *words: str) -> list[str]:
    """What a shell gets for these words, the last of them unfinished."""
    done = shell.type(*words, OUTRIDER_COMPLETE="bash")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_every_kind_of_word_is_completed(shell: Shell) -> None:
    assert shell.type("run", "look", "go").returncode == 0
    top, below = (row["id"] for row in shell.rows("select id from executions order by id"))

    assert asked(shell, "show", "") == [top, below]
    assert asked(shell, "show", below[:-1]) == [below]
    assert asked(shell, "config", "sh") == ["show"]
    assert asked(shell, "run", "lo") == ["look"]
    assert asked(shell, "ps", "--a") == ["--all"]
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

    assert done.stdout.split() == ["show", "sql"]
    assert not {"mcp", "anthropic", "sqlalchemy", "anyio", "pydantic", "registry", "rich"} & set(done.stderr.split())


def test_a_shell_without_a_script_is_refused(shell: Shell) -> None:
    done = shell.type("completion", "tcsh")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: no completion for the shell `tcsh`\n\nhint: there is one for `bash`, `zsh` and `fish`\n"
