"""What a person sees on a real terminal: the live tree, redrawn in place, whose last picture stays; the answer, drawn;
colour only where it is wanted.
"""

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.support.shell import CONFIG, Shell, make_shell
from tests.support.terminal import typed, watched


def test_the_last_picture_stays_in_the_scroll_back(shell: Shell) -> None:
    code, answer, seen = typed(shell, "run", "look", "go")

    assert (code, answer) == (0, "[rehearsed]\n\n# Finding\n\nat once\n")
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen).replace("\r", "")
    last = plain[plain.rindex("● look") :].splitlines()
    assert re.match(r"└─ ● Quick \(only\)  \w{6} +at once", last[1])
    assert last[2].startswith("total")
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", seen)


def test_no_color_is_honoured(shell: Shell) -> None:
    code, _, seen = typed(shell, "run", "Quick", "go", NO_COLOR="1")
    refused, _, told = typed(shell, "run", "Quik", "go", NO_COLOR="1")

    assert (code, refused) == (0, 4)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", seen + told)
    assert "error: no agent" in told


def test_a_terminal_that_cannot_redraw_gets_lines(shell: Shell) -> None:
    code, _, seen = typed(shell, "run", "Quick", "go", TERM="dumb")

    assert code == 0
    assert "\x1b" not in seen
    assert re.search(r"◐ Quick  running\r\n.*● Quick  completed: at once", seen)


WORDS = "inventory was rolled out at noon and its pods fail since then because the pool of connections is too small"
ANSWER = f"# Cause\n\n**It is** `{WORDS}`.\nMap<int> and <b>tags</b> stay.\n\n- [page](http://example.org/x)\n- 検査員 שלום"


def answering(folder: Path, answer: str) -> Shell:
    """A shell whose agent `Quick` gives this answer."""
    shell = make_shell(folder)
    script = {"agents": {"Quick": [{"when": "any", "say": answer}], "Broken": [{"when": "conclude", "say": "x"}]}}
    (folder / "script.yaml").write_text(json.dumps(script), encoding="utf-8")
    return shell


@pytest.mark.parametrize("columns", [40, 90])
def test_an_answer_is_drawn_and_wrapped_between_words_on_a_terminal(tmp_path: Path, columns: int) -> None:
    shell = answering(tmp_path, ANSWER)

    code, lines = watched(shell, "run", "Quick", "go", columns=columns)
    again = watched(shell, "show", shell.rows("select id from executions")[0]["id"], columns=columns)[1]

    assert code == 0
    for shown in (lines, again):
        begin = shown.index("[rehearsed]")
        answer = shown[begin : shown.index(" • 検査員 שלום") + 1]
        assert answer[2] == "Cause", "headings lose their mark, and stand to the left"
        assert max(map(cell_len, answer)) <= columns
        assert f"It is {WORDS}." in " ".join(answer), "no word is broken, and the marks are gone"
        assert "Map<int> and <b>tags</b> stay." in answer, "line breaks stay, and nothing is taken for HTML"
        assert " • page (http://example.org/x)" in answer
    assert shell.type("run", "Quick", "go").stdout == f"[rehearsed]\n\n{ANSWER}\n", "a pipe gets it as it is"


CITED = "\n".join(f"- fact {number} (`outrider show toolu_{number:06}`)" for number in range(20))
STEPS = "\n".join(f"{number}. step {number}" for number in range(1, 6))
REPORT = f"## Cause\n\nThe pool.\n\n## Evidence\n\n{CITED}\n\n## Next\n\n{STEPS}"


def test_evidence_is_folded_to_what_the_terminal_holds_and_shown_whole_where_it_is_asked_for(tmp_path: Path) -> None:
    shell = answering(tmp_path, REPORT)

    _, lines = watched(shell, "run", "Quick", "go")
    short = shell.rows("select id from executions")[0]["id"][-6:]
    _, whole = watched(shell, "show", short)

    assert f"… 17 more; outrider show {short} shows all" in lines
    assert [line for line in lines if line.startswith(" • ")] == [
        f" • fact {number} (outrider show toolu_{number:06})" for number in range(3)
    ]
    assert [line for line in lines if "step" in line] == [f" {number} step {number}" for number in range(1, 6)]
    assert len([line for line in whole if line.startswith(" • ")]) == 20
    assert not any("more; " in line for line in whole)
    assert shell.type("run", "Quick", "go").stdout.endswith(f"{REPORT}\n"), "a pipe gets all of it"


def test_an_answer_that_fits_and_prose_that_does_not_stay_whole(tmp_path: Path) -> None:
    prose = "\n\n".join(f"Paragraph {number}." for number in range(30))
    for place, answer in enumerate(("Four:\n\n- one (toolu_000001)\n- two\n- three\n- four", prose)):
        folder = tmp_path / str(place)
        folder.mkdir()
        lines = [line for line in watched(answering(folder, answer), "run", "Quick", "go")[1] if line]
        told = [line for line in lines if re.fullmatch(r"(\[rehearsed\] )?Paragraph \d+\.| • .+", line)]
        assert len(told) == (4, 30)[place]
        assert not any("more; " in line for line in lines)


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_list_fits_the_terminal_and_keeps_ids_and_tasks(tmp_path: Path, columns: int) -> None:
    shell = answering(tmp_path, ANSWER)
    for task in (f"検査員 {WORDS}", "look around"):
        assert shell.type("run", "Quick", task).returncode == 0

    code, lines = watched(shell, "ps", "--all", columns=columns)

    assert (code, len(lines)) == (0, 3)
    assert max(map(cell_len, lines)) <= columns
    assert [shell.json("show", line.split()[1])["task"][:4] for line in lines[1:]] == ["look", "検査員 "]
    tasks = [line.index("look around") for line in lines[1:2]] + [cell_len(lines[2][: lines[2].index("検")])]
    assert tasks[0] == tasks[1], "wide characters keep the columns"


def test_a_terminal_that_cannot_draw_and_one_without_colour(tmp_path: Path) -> None:
    shell = answering(tmp_path, "**It is** done\x1b[31m")

    assert "[rehearsed] **It is** done�[31m" in watched(shell, "run", "Quick", "go", TERM="dumb")[1]
    assert "[rehearsed] It is done�[31m" in [
        line.rstrip() for line in watched(shell, "run", "Quick", "go", NO_COLOR="1")[1]
    ]


def test_what_failed_is_told_with_its_cause_first_then_where_then_what_to_do(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, CONFIG.replace("agents: [Quick]", "agents: [Broken]"))

    done = shell.type("run", "look", "go")
    broken = shell.rows("select id from executions where agent = 'Broken'")[0]["id"]
    shown = shell.type("show", shell.rows("select id from executions where agent = 'look'")[0]["id"]).stdout

    error = done.stderr[done.stderr.index("error: ") :]
    assert done.returncode == 1
    assert re.match(
        rf"error: the model could not answer: .*\n  in look › Broken \(failed, {broken[-6:]}\)\n\nhint: ", error
    )
    facts = [line.split()[0] for line in shown.splitlines()[:7]]
    assert facts == ["execution", "agent", "status", "error", "in", "advice", "task"]
