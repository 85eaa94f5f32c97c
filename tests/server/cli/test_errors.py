"""`outrider errors`: what went wrong, for people and for programs, and what is done about it."""

from pathlib import Path

from tests.support.requirement import requirement
from tests.support.shell import make_shell


@requirement("S1-HF-3", "S1-HF-4", "S1-HF-5")
def test_errors_are_listed_once_shown_exported_and_marked_as_fixed(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    assert shell.type("run", "Quick", "go").returncode == 0
    assert "nothing went wrong" in shell.type("errors").stderr
    assert shell.json("errors") == {"_last_updated": None, "errors": []}
    shell.type("run", "Lonely", "go")
    before = shell.json("errors")["_last_updated"]
    shell.type("run", "Lonely", "go")

    told = shell.json("errors")
    [error] = told["errors"]
    assert before < told["_last_updated"] == error["last_seen"]
    assert (error["type"], error["recurrence_count"], error["context"]["agent"]) == ("tool_unavailable", 2, "Lonely")
    heading, line = shell.type("errors", "--open", "--type", "tool_unavailable").stdout.splitlines()
    assert heading.split()[:4] == ["id", "severity", "type", "agent"]
    assert line.split()[1:5] == ["medium", "tool_unavailable", "Lonely", "2"]
    short = line.split()[0]
    shown = shell.type("errors", short).stdout
    assert f"error        {error['id']}" in shown
    assert "absent" in shown

    fixed = shell.json("errors", short, "--fix", "fixed", "--plan", "specs/7.md", "--task", "196")
    assert (fixed["fix_status"], fixed["fix_plan_ref"], fixed["fix_task_ref"]) == ("fixed", "specs/7.md", "196")
    assert shell.json("errors", "--open")["errors"] == []
    assert "no such error" in shell.type("errors", "--open").stderr


def test_what_makes_no_sense_is_refused_with_a_hint(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    shell.type("run", "Quick", "go")
    for words, code, said in (
        (["1nobody"], 4, "no error `1nobody`"),
        (["--fix", "fixed"], 2, "no error was given"),
        (["1nobody", "--plan", "x"], 2, "say how an error is fixed"),
        (["1nobody", "--open"], 2, "choose from the list"),
        (["1nobody", "--fix", "perhaps"], 2, "perhaps"),
    ):
        refused = shell.type("errors", *words)
        assert (refused.returncode, said in refused.stderr) == (code, True), refused.stderr
        assert "hint:" in refused.stderr
