"""Several processes on one database: they run, list and cancel each other's executions; the keyboard stops one's own."""

import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.faults.crash.victim import victim
from tests.support.messages_api import messages_api, reply, text
from tests.support.requirement import requirement
from tests.support.shell import SCRIPT, SECONDS, Shell, held, make_shell


def integrity(shell: Shell) -> str:
    """What SQLite says of the file."""
    connection = sqlite3.connect(shell.database)
    try:
        return str(connection.execute("pragma integrity_check").fetchone()[0])
    finally:
        connection.close()


def statuses(shell: Shell) -> dict[str, str]:
    """The status of each agent's execution."""
    return {row["agent"]: row["status"] for row in shell.rows("select agent, status from executions")}


@requirement("S2-LE-4")
def test_two_processes_run_a_third_cancels_one_of_them_and_a_fourth_lists_both(shell: Shell) -> None:
    left, right = shell.gate("left"), shell.gate("right")
    with (
        shell.start("run", "Lead", "left", GATE=str(left)) as one,
        shell.start("run", "Lead", "right", GATE=str(right)) as other,
    ):
        with held(left), held(right):
            both = {entry["task"]: entry for entry in shell.json("ps")}
            assert {task: entry["status"] for task, entry in both.items()} == {"left": "running", "right": "running"}
            assert not any(entry["owner_gone"] for entry in both.values())
            assert both["left"]["owner"] != both["right"]["owner"]

            cancelled = shell.type("cancel", both["left"]["short_id"], "--reason", "enough")
            assert cancelled.returncode == 0, cancelled.stderr
            assert re.fullmatch(r"⊘ Lead  (\w{6})  cancelled\n   ⊘ Waiter  \w{6}  cancelled\n", cancelled.stdout)
            assert both["left"]["short_id"] in cancelled.stdout
            _, told = one.communicate(timeout=SECONDS)
            assert one.returncode == 5
            assert "note: Lead was cancelled" in told
            assert "error" not in told
            assert "Cancelled" not in told

            assert [entry["task"] for entry in shell.json("ps")] == ["right"]
            assert {entry["task"]: entry["status"] for entry in shell.json("ps", "--all")} == {
                "left": "cancelled",
                "right": "running",
            }
        answer, _ = other.communicate(timeout=SECONDS)
        assert (other.returncode, answer) == (0, "[rehearsed] it is done\n")

    again = shell.type("cancel", both["left"]["id"])
    assert (again.returncode, again.stderr) == (0, "note: it had ended before; nothing was cancelled\n")
    rows = shell.rows("select status, error, cancel_reason from executions where root_execution_id = ?", both["left"]["id"])
    assert rows == [{"status": "cancelled", "error": None, "cancel_reason": "enough"}] * 2
    assert shell.rows("select * from error_records") == []
    assert integrity(shell) == "ok"


@requirement("S2-CA-10")
def test_a_child_that_waits_for_a_slot_is_cancelled_from_another_process_and_never_asked(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "both", "--input", "both=true", GATE=str(gate)) as running:
        with held(gate):
            waiting = shell.rows("select id from executions where status = 'pending'")
            assert len(waiting) == 1
            told = shell.json("cancel", waiting[0]["id"])
            assert (told["status"], told["cancel"]) == ("cancelled", "done")
        answer, _ = running.communicate(timeout=SECONDS)

    assert (running.returncode, answer) == (0, "[rehearsed] it is done\n")
    row = shell.rows("select status, started_at from executions where id = ?", waiting[0]["id"])[0]
    assert row == {"status": "cancelled", "started_at": None}
    assert shell.rows("select * from model_calls where execution_id = ?", waiting[0]["id"]) == []


@requirement("S2-CA-11")
def test_the_first_interruption_cancels_the_tree_and_shows_it(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=SECONDS)

    assert running.returncode == 130
    assert "note: cancelling; interrupt again to exit at once\n" in told
    assert "⊘ Lead › Waiter  cancelled" in told
    assert "⊘ Lead  cancelled" in told
    assert statuses(shell) == {"Lead": "cancelled", "Waiter": "cancelled"}
    row = shell.rows("select cancel_reason, error from executions where agent = 'Lead'")[0]
    assert row == {"cancel_reason": "interrupted from the keyboard", "error": None}


def test_the_second_interruption_leaves_at_once_and_says_how_to_look_later(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        assert running.stderr is not None
        # While somebody else holds the commit lock the wish to cancel cannot be written, and the tree goes on.
        with shell.database.with_name("outrider.db-lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            running.send_signal(signal.SIGINT)
            said = ""
            while (
                "not cancelled: another process has held" not in said or "running executions wait until it ends" not in said
            ):
                said += running.stderr.readline()
            running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=SECONDS)

    assert running.returncode == 130
    root = shell.rows("select id from executions where agent = 'Lead'")[0]["id"]
    assert "cancelling" in said
    assert f"error: exited before the end\n\nhint: `outrider show {root}` shows its progress" in told


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_waits_until_the_cancel_is_stored(shell: Shell, second: signal.Signals) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        assert running.stderr is not None
        with shell.database.with_name("outrider.db-lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            running.send_signal(signal.SIGINT)
            while "cancelling" not in running.stderr.readline():
                assert running.poll() is None
            running.send_signal(second)
        _, told = running.communicate(timeout=SECONDS)

    assert running.returncode == 130
    assert "error: exited before the end was shown\n\nhint: the tree is cancelled; `outrider show " in told
    stored = shell.rows("select cancel_reason from executions")
    assert {row["cancel_reason"] for row in stored} == {"interrupted from the keyboard"}


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("patient", [True, False])
def test_a_termination_lets_what_is_under_way_end_or_be_cut_by_a_second_one_and_leaves_the_tree_to_be_resumed(
    shell: Shell, patient: bool, stop: signal.Signals
) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            running.send_signal(stop)
            assert running.stderr is not None
            while "note: stopping once running calls have ended" not in running.stderr.readline():
                assert running.poll() is None
            if not patient:
                running.send_signal(signal.SIGTERM)
                running.wait(SECONDS)
        answer, told = running.communicate(timeout=SECONDS)

    root = shell.json("ps")[0]["id"]
    assert (running.returncode, answer) == (143, "")
    assert told.endswith(
        "error: stopped before the end\n\n"
        f"hint: `outrider resume {root}` resumes it, and so does the next `outrider serve`\n"
    )
    assert statuses(shell) == {"Lead": "running", "Waiter": "running"}

    resumed = shell.type("resume", root)
    assert (resumed.returncode, resumed.stdout) == (0, "[rehearsed] it is done\n"), resumed.stderr
    calls = shell.rows("select status from tool_calls where tool = 'gate.wait'")
    assert calls == [{"status": "completed" if patient else "unknown"}]


def test_a_resumed_tree_tells_the_time_since_it_began_first(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        running.kill()
        running.wait(SECONDS)
    resumed = shell.json("resume", shell.json("ps")[0]["id"])

    [lead] = shell.rows("select own_seconds from execution_tree where agent = 'Lead'")
    assert resumed["usage"]["seconds"] == pytest.approx(lead["own_seconds"], abs=0.002)


async def test_a_tree_that_comes_to_its_end_while_its_process_stops_is_told_as_ever(tmp_path: Path) -> None:
    shell, gate = make_shell(tmp_path, "models: {m: {model: claude-any}}\nagents: {Quick: {}}\n"), anyio.Event()
    slowly = replace(reply(text("at once"), gate=gate), pace=0.05)  # so that it ends long after the signal
    async with messages_api(slowly) as api:
        environ = shell.surroundings(ANTHROPIC_API_KEY="none", ANTHROPIC_BASE_URL=api.url)
        with anyio.fail_after(SECONDS):
            async with victim(["run", "Quick", "look"], tmp_path, environ) as running:
                await api.arrived(1)
                running.send_signal(signal.SIGTERM)
                gate.set()
                assert running.stdout is not None
                assert await running.stdout.receive() == b"at once\n"
                assert await running.wait() == 0

    assert "note: stopping" in (tmp_path / "stderr").read_text(encoding="utf-8")


def test_what_a_process_that_died_left_open_is_marked_and_can_be_cancelled(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        running.kill()
        running.wait(SECONDS)

    listed = shell.type("ps")
    assert "interrupted (" in listed.stdout
    assert "note: `outrider resume ID` resumes an interrupted execution" in listed.stderr
    root = shell.json("ps")[0]
    assert root["owner_gone"] is True
    assert "its process is gone" in shell.type("show", root["short_id"]).stdout
    told = shell.json("cancel", root["short_id"])
    assert (told["cancel"], told["status"]) == ("done", "cancelled")
    assert statuses(shell) == {"Lead": "cancelled", "Waiter": "cancelled"}
    assert shell.json("ps") == []
    assert integrity(shell) == "ok"


def test_a_reader_that_has_read_enough_fails_nothing(shell: Shell) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [SCRIPT, "sql", "select * from executions"],
        cwd=shell.folder,
        env=shell.surroundings(),
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        check=False,
    )

    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_was_run_is_read_back_by_another_process(shell: Shell) -> None:
    told = shell.json("run", "Quick", "look")

    shown = shell.json("show", told["execution_id"])

    assert shown["result"] == told["result"]
    assert json.loads(shell.rows("select result from executions")[0]["result"]) == told["result"]


def test_what_a_process_that_died_left_open_goes_on_by_hand_and_can_be_continued_when_it_has_ended(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        running.kill()
        running.wait(SECONDS)
    root = shell.json("ps")[0]

    resumed = shell.type("resume", root["short_id"], GATE=str(gate))

    assert (resumed.returncode, resumed.stdout) == (0, "[rehearsed] it is done\n"), resumed.stderr
    assert statuses(shell) == {"Lead": "completed", "Waiter": "completed"}
    call = shell.rows("select status, result from tool_calls where tool = 'gate.wait'")[0]
    assert call["status"] == "unknown"
    assert "whether it took effect is unknown" in call["result"]

    continued = json.loads(shell.type("resume", root["id"], "is that all?", "--json").stdout)
    assert continued["execution_id"] != root["id"]
    rows = shell.rows("select agent, continues_execution_id from executions order by id")
    assert [row["continues_execution_id"] for row in rows] == [None, None, root["id"]]
    assert shell.type("resume", "nothing").returncode == 4
    assert integrity(shell) == "ok"
