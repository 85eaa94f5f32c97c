"""The nested example: five levels, played by the console script on the files beside it; only models are rehearsed."""

from pathlib import Path

from tests.support.shell import make_shell
from tests.support.sources import ROOT

CONFIG = str(ROOT / "examples" / "nested" / "config.yaml")
LEVELS = ["Desk", "Clerk", "Survey", "Inspector", "Reader"]


def test_five_levels_answer_from_what_the_files_say(tmp_path: Path) -> None:
    shell, database = make_shell(tmp_path), str(tmp_path / "nested.db")
    ran = shell.type("run", "Desk", "How are the lighthouses?", "--config", CONFIG, "--db", database)
    rows = shell.json("sql", "select agent, depth, subtree_executions as n from execution_tree", "--db", database)
    refused = shell.type("run", "Desk", "What is the weather?", "--config", CONFIG, "--db", database)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "[rehearsed] Beacon Point: all is well",
        "Grey Rock: its lamp is dark",
        "South Stack: its oil runs out",
    ]
    assert {row["agent"]: row["depth"] for row in rows if row["agent"] in LEVELS} == dict(
        zip(LEVELS, range(5), strict=True)
    )
    assert max(row["n"] for row in rows) == len(rows) == 17
    assert "knows only the lighthouses" in refused.stdout
