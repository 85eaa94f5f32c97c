"""`outrider approve`, and the terminal of `run`: a person sees what a call would do, and only then it may be allowed."""

import json
import re
import sqlite3
import subprocess
from pathlib import Path

from tests.support.gated import digest_of
from tests.support.shell import CONFIG, Shell, make_shell
from tests.support.terminal import screen

GATED = CONFIG.replace("timeout: 50s}", "timeout: 50s, gates: {wait: ask}}")
BOTH = ("run", "Lead", "clean up", "--input", "both=true")


def open_gate(folder: Path) -> Shell:
    """A shell before a gate that is open for calls that a person allows."""
    folder.joinpath("opened").write_text("the gate is open", encoding="utf-8")
    return make_shell(folder, GATED, {"GATE": str(folder / "opened")})


def until_asked(run: "subprocess.Popen[str]", shell: Shell) -> str:
    """The approval that a run waits for; it says in which execution."""
    assert run.stderr is not None
    for line in run.stderr:
        if "waiting for approval of gate.wait: outrider approve " in line:
            [row] = shell.rows("select id, execution_id from approvals where decision is null")
            assert row["execution_id"].endswith(line.split()[-1])
            return str(row["id"])
    raise AssertionError("nothing was asked")


def decisions(shell: Shell) -> list[str | None]:
    """In the order of the questions."""
    return [row["decision"] for row in shell.rows("select decision from approvals order by id")]


def test_a_person_allows_and_refuses_from_another_process_what_a_run_waits_for(tmp_path: Path) -> None:
    shell = open_gate(tmp_path)
    with shell.start(*BOTH) as run:
        first = until_asked(run, shell)
        [entry] = shell.json("ps")
        listed = shell.type("approve")
        shown = shell.type("show", entry["id"])
        [waiting] = shell.json("approve")
        unknown = shell.type("approve", "zzzz")
        unclear = shell.type("approve", "--deny")
        digest = digest_of(shell, first)
        allowed = shell.type("approve", entry["doing"].split()[-1], "--yes", digest)
        again = [
            shell.type("approve", first, "--yes", digest),
            shell.type("approve", first[:20], "--deny"),
            shell.type("approve", first[-8:]),
            shell.type("approve", waiting["execution_id"][-6:]),
        ]

        second = until_asked(run, shell)
        refused = shell.type("approve", second[:16], "--deny", "--reason", "one is enough", "--json")
        out, _ = run.communicate(timeout=30)
        nothing = shell.type("approve")
        over = shell.type("approve", entry["id"])

    doing = "Waiter waiting for approval of gate.wait: outrider approve "
    assert entry["doing"].startswith(doing)
    assert waiting["execution_id"].endswith(entry["doing"].removeprefix(doing))
    assert entry["doing"] in shown.stdout
    assert first in listed.stdout
    assert "gate.wait" in listed.stdout
    assert "arguments  {}" in listed.stdout
    assert "`outrider approve ID` asks whether a call may run" in listed.stderr
    assert (waiting["approval_id"], waiting["agent"], waiting["arguments"]) == (first, "Waiter", {})
    assert unknown.returncode == 4
    assert "`outrider approve` lists the calls that wait" in unknown.stderr
    assert unclear.returncode == 2
    assert (allowed.returncode, allowed.stdout.splitlines()[0]) == (0, "approved")
    [row] = shell.rows("select decided_by, decided_at from approvals where id = ?", first)
    for late in again:
        assert late.returncode == 3
        assert f"approval `{first}` was approved by {row['decided_by']} at {row['decided_at']}" in late.stderr
    assert json.loads(refused.stdout)["decision"] == "denied"
    assert (run.returncode, "it is done" in out) == (0, True)
    calls = shell.rows("select status, result, error_type from tool_calls where tool = 'gate.wait' order by started_at")
    assert [(call["status"], call["error_type"]) for call in calls] == [("completed", None), ("failed", "denied")]
    assert "one is enough" in calls[1]["result"]
    assert "nothing waits for approval" in nothing.stderr
    assert over.returncode == 3
    assert f"approval `{second}` was denied by {row['decided_by']} at " in over.stderr
    assert ": one is enough" in over.stderr


def test_without_a_terminal_nothing_is_allowed_unseen_and_the_digest_is_nowhere_to_be_read(tmp_path: Path) -> None:
    shell = open_gate(tmp_path)
    with shell.start("run", "Waiter", "wait") as run:
        asked = until_asked(run, shell)
        digest = digest_of(shell, asked)
        unseen = shell.type("approve", asked)
        wrong = [shell.type("approve", asked, "--yes", each) for each in ("000000000000", digest[:6], digest + "0")]
        both = shell.type("approve", asked, "--yes", digest, "--deny")
        still = decisions(shell)
        read = [shell.type(*words) for words in (("approve",), ("show", asked_in(shell)), ("ps",))]
        read += [shell.type("approve", "--json"), shell.type("sql", "select * from approvals")]
        read += [shell.type("sql", "select seal from approvals"), shell.type("show", asked_in(shell), "--json")]
        allowed = shell.type("approve", asked, "--yes", digest)
        run.communicate(timeout=30)

    assert unseen.returncode == 2
    assert "a person has to see the arguments" in unseen.stderr
    assert [each.returncode for each in wrong] == [3, 3, 3]
    assert "another call was shown" in wrong[0].stderr
    assert both.returncode == 2
    assert still == [None]
    [seal] = shell.rows("select seal from approvals")
    for each in read:
        assert each.returncode == 0, each.stderr
        assert digest not in each.stdout + each.stderr
        assert seal["seal"] not in each.stdout
    assert allowed.returncode == 0
    assert decisions(shell) == ["approved"]


def asked_in(shell: Shell) -> str:
    """The execution that asks."""
    return str(shell.rows("select execution_id from approvals")[0]["execution_id"])


def test_on_a_terminal_the_call_is_shown_and_anything_but_yes_leaves_it_open(tmp_path: Path) -> None:
    shell = open_gate(tmp_path)
    with shell.start("run", "Waiter", "wait") as run:
        asked = until_asked(run, shell)
        with screen(shell, "approve", asked_in(shell)) as terminal:
            terminal.press("y\n")  # before anything was shown
            shown = terminal.until("Allow? [y/N] ")
            terminal.press("yes please\n")
            left = terminal.end()
        still = decisions(shell)
        with screen(shell, "show", asked) as terminal:
            of_approval = terminal.end()
        with screen(shell, "show", asked_in(shell)) as terminal:
            of_execution = terminal.end()
        with screen(shell, "approve", asked) as terminal:
            terminal.until("Allow? [y/N] ")
            terminal.press("YES\n")
            allowed = terminal.end()
        run.communicate(timeout=30)

    assert "arguments  {}" in shown
    assert digest_of(shell, asked) in shown
    assert (left[0], still) == (3, [None])
    assert f"it stays open; `outrider approve {asked} --deny` refuses it" in re.sub(r"\s+", " ", left[1])
    assert of_approval[0] == 4
    assert digest_of(shell, asked) in of_execution[1]
    assert (allowed[0], decisions(shell)) == (0, ["approved"])
    assert "approved" in allowed[1]


def test_once_it_is_decided_or_has_expired_nothing_shows_a_question_of_a_process_that_is_gone(tmp_path: Path) -> None:
    shell = open_gate(tmp_path)
    asked = {}
    for task in ("decided", "expired"):
        with shell.start("run", "Waiter", task) as run:
            assert run.stderr is not None
            assert any("waiting for approval" in line for line in run.stderr)
        [row] = shell.rows("select a.id, e.id as execution from approvals a join executions e on e.id = execution_id "
                           "where task = ?", task)  # fmt: skip
        asked[task] = row
    looks = [("ps",), ("ps", "--json"), ("approve",), ("approve", "--json")]
    looks += [("show", row["execution"], *how) for row in asked.values() for how in ((), ("--tree",), ("--json",))]
    before = "".join(shell.type(*words).stdout for words in looks)
    assert shell.type("approve", asked["decided"]["execution"], "--deny").returncode == 0
    with sqlite3.connect(shell.database) as connection:
        connection.execute("update approvals set expires_at = requested_at where id = ?", (asked["expired"]["id"],))
    connection.close()
    after = "".join(shell.type(*words).stdout for words in looks)
    late = shell.type("approve", asked["expired"]["execution"])

    assert before.count("waiting for approval") >= 8
    assert "waiting for approval" not in after
    assert "outrider approve" not in after
    assert asked["decided"]["id"] not in after
    assert "its question to a person has expired" in after
    assert late.returncode == 4
    waits = shell.rows("select waiting_for from executions where task = 'decided'")
    assert waits == [{"waiting_for": None}]


def test_a_run_on_a_terminal_asks_in_place_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    shell = open_gate(tmp_path)
    with screen(shell, *BOTH) as terminal:
        first = terminal.until("Allow?")
        terminal.press("y\n")
        terminal.until("expires")
        terminal.until("Allow?")
        terminal.press("n one is enough\n")
        code, rest = terminal.end()

    [allowed, refused] = shell.rows("select id, decision, reason from approvals order by id")
    assert (allowed["decision"], refused["decision"], refused["reason"]) == ("approved", "denied", "one is enough")
    assert allowed["id"] in first
    assert "arguments  {}" in first
    assert digest_of(shell, allowed["id"]) in first
    assert code == 0
    assert "it is done" in rest


def test_a_question_that_is_left_or_answered_elsewhere_does_not_hold_the_terminal(tmp_path: Path) -> None:
    shell = open_gate(tmp_path)
    with screen(shell, *BOTH) as terminal:
        terminal.until("Allow?")
        terminal.press("later\n")
        terminal.until("outrider approve ")
        [first] = shell.json("approve")
        assert shell.type("approve", first["approval_id"], "--deny").returncode == 0
        terminal.until("expires")
        terminal.until("Allow?")
        [second] = shell.json("approve")
        digest = digest_of(shell, second["approval_id"])
        assert shell.type("approve", second["approval_id"], "--yes", digest).returncode == 0
        code, rest = terminal.end()

    assert decisions(shell) == ["denied", "approved"]
    assert (code, "it is done" in rest) == (0, True)
