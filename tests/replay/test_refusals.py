"""`replay` and `rerun` by the console script: what they refuse, in which words and with which exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell import Shell, held, make_shell
from tests.support.sources import ROOT


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("replay", "."), 2, "error: `.` is not a file"),
        (("replay", "/dev/null"), 2, "error: `/dev/null` is not a file"),
        (("replay", "absent.json"), 4, "error: there is no file `absent.json`"),
        (("replay", "demo.json", "--tools", "foo"), 2, "error: invalid value for `--tools`: `foo` is not one of"),
        (("rerun", "demo", "--task", ""), 2, "error: the task is empty"),
        (("rerun", "demo", "--task", " \n"), 2, "error: the task is empty"),
    ],
)
def test_a_mistake_is_told_in_plain_words(
    demo: tuple[Shell, str], bundle: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    shell, _ = demo
    done = shell.type(*words)

    assert bundle.exists()
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(said)
    assert "\nhint: " in done.stderr


def _nested(content: dict[str, Any]) -> None:
    value: Any = None
    for _ in range(600):
        value = [value]
    content["recording"]["executions"][0]["input"] = value


BROKEN = [
    (
        lambda content: content["recording"]["executions"][1]["messages"][0]["content"][0].update(text="\ud800"),
        "`executions[1].messages[0].content[0].text` has half of a character",
    ),
    (lambda content: content["recording"].update(executions=[]), "`executions`: it is empty"),
    (_nested, "it is nested too deeply"),
]


@pytest.mark.parametrize(("broken", "said"), BROKEN, ids=["surrogate", "empty", "deep"])
def test_a_broken_recording_is_told_in_plain_words(demo: tuple[Shell, str], bundle: Path, broken: Any, said: str) -> None:
    shell, _ = demo
    content = json.loads(bundle.read_text())
    broken(content)
    (shell.folder / "odd.json").write_text(json.dumps(content))
    done = shell.type("replay", "odd.json")

    assert done.returncode == 2
    assert said in done.stderr.partition("\n")[0]


def test_half_of_a_character_outside_the_recording_is_a_difference(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, identifier = demo
    content = json.loads(bundle.read_text())
    content["executions"][identifier]["input"] = {"a": "\ud800" * 200}
    (shell.folder / "half.json").write_text(json.dumps(content))

    assert shell.type("replay", "half.json").returncode == 1


def test_an_execution_of_another_tree_is_said_to_be_there(demo: tuple[Shell, str]) -> None:
    shell, identifier = demo
    other = shell.json("run", "Quick", "look")["execution_id"]
    done = shell.type("rerun", identifier, "--from", other)

    assert (done.returncode, done.stdout) == (2, "")
    assert f"execution `{other}` is not in the tree of `{identifier}`, but in another one" in done.stderr
    assert f"outrider rerun {other} --from {other}" in done.stderr


def test_a_tree_that_has_not_ended_is_refused_with_one_exit_code(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            root = shell.json("ps")[0]["id"]
            refused = [shell.type(*words) for words in (("export", root), ("replay", root), ("rerun", root))]
        running.communicate(timeout=40)

    assert [done.returncode for done in refused] == [2, 2, 2]
    assert all("has not ended\n\nhint: wait until it ends, or `outrider cancel` it" in done.stderr for done in refused)


def test_a_live_server_that_cannot_start_is_named_with_its_error(
    demo: tuple[Shell, str], bundle: Path, tmp_path: Path
) -> None:
    shell, _ = demo
    text = (ROOT / "config.yaml").read_text(encoding="utf-8")
    command = '["${OUTRIDER_PYTHON}", -P, -m, outrider_sre.logs]'
    assert text.count(command) == 1
    for each in ROOT.glob("*.yaml"):
        (tmp_path / each.name).write_bytes(each.read_bytes())
    (tmp_path / "config.yaml").write_text(text.replace(command, "[no-such-program]"), encoding="utf-8")
    places = ("--tools", "live", "--config", str(tmp_path / "config.yaml"))
    done = shell.type("replay", str(bundle), *places, "--json")

    first = json.loads(done.stdout)["first_difference"]
    assert (done.returncode, first["what"], first["agent"]) == (1, "its result", "LogAnalyzer")
    assert "upstream `logs` cannot start `no-such-program`: no such program" in first["got"]


def test_a_bundle_names_no_folder_of_the_machine_that_wrote_it(demo: tuple[Shell, str], bundle: Path) -> None:
    shell, _ = demo
    text = bundle.read_text()
    [configuration] = json.loads(text)["recording"]["configurations"].values()

    assert configuration["source"] == "config.yaml"
    assert str(shell.folder) not in text
    assert str(ROOT) not in text
