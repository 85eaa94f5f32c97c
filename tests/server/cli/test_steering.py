"""Steering from a shell: a message or a wish to conclude reaches an execution of another process, or it is said why not."""

import json
import re
import signal
import time
from contextlib import ExitStack

from tests.support.requirement import requirement
from tests.support.shell import SECONDS, Shell, held


def waiter(shell: Shell) -> str:
    """The id of the execution that waits at the gate."""
    return str(shell.rows("select id from executions where agent = 'Waiter'")[0]["id"])


def noticed(shell: Shell, query: str) -> None:
    """Return once a query has rows; another process is about to write them."""
    limit = time.monotonic() + SECONDS
    while not shell.rows(query):
        assert time.monotonic() < limit, f"nothing came of {query}"


def test_a_message_is_read_at_the_next_step_and_one_that_comes_too_late_is_refused_with_the_reason(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            short = shell.json("ps")[0]["short_id"]
            told = shell.type("message", waiter(shell), "it was at noon \x1b[31m")
            assert (told.returncode, told.stdout) == (0, "")
            assert told.stderr.startswith("note: Waiter reads it at its next step; `outrider show ")
            assert shell.json("message", short, "be brief")["message"] == "accepted"
            piped = shell.type("message", short, "-", stdin="and\nthorough\n")
            assert piped.returncode == 0, piped.stderr
        running.communicate(timeout=SECONDS)

    assert running.returncode == 0
    read = shell.type("show", waiter(shell), "--transcript").stdout
    assert "it was at noon �[31m" in read
    said = shell.rows("select payload, consumed_at from deliveries where kind = 'message' order by created_at")
    assert [json.loads(row["payload"])["text"] for row in said[1:]] == ["be brief", "and\nthorough"]
    assert all(row["consumed_at"] for row in said)

    late = shell.type("message", short, "too late")
    assert (late.returncode, late.stdout) == (1, "")
    ended = shell.json("ps", "--all")[0]["id"]
    assert late.stderr.startswith(f"error: execution `{ended}` (Lead) has ended, so the message would not be read")
    assert "\n\nhint: `outrider resume " in late.stderr
    for words, code, why in (
        (("message", "nobody", "hello"), 4, "error: "),
        (("message", short, "  "), 2, "error: the message is empty"),
        (("message", short, "x" * 20_001), 2, "error: the message is longer than 20,000 characters"),
    ):
        done = shell.type(*words)
        assert (done.returncode, done.stderr.startswith(why)) == (code, True), done.stderr
    assert len(shell.rows("select id from deliveries where kind = 'message'")) == 3


def test_what_is_being_cancelled_takes_no_message_and_what_lost_its_process_keeps_it(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running, held(gate):
        identifier = waiter(shell)
        running.send_signal(signal.SIGSTOP)
        with shell.start("cancel", identifier):
            noticed(shell, "select id from executions where agent = 'Waiter' and cancel_requested_at is not null")
            late = shell.type("message", identifier, "wait")
            assert (late.returncode, "(Waiter) is being cancelled" in late.stderr) == (1, True)
        running.kill()
        running.wait(SECONDS)

    root = shell.json("ps")[0]
    alone = shell.type("message", root["short_id"], "anybody?")
    assert (alone.returncode, alone.stdout) == (0, "")
    gone = "note: the process of Lead is gone; it reads the message once it is resumed: `outrider resume "
    assert alone.stderr.startswith(gone)
    assert shell.json("message", root["short_id"], "hello?")["owner_gone"] is True

    asked = shell.type("cancel", root["short_id"], "--wrap-up")
    assert asked.returncode == 0
    assert asked.stderr.startswith("note: its process is gone; it concludes once `outrider resume ")
    assert shell.rows("select status from executions where agent = 'Lead'") == [{"status": "running"}]
    resumed = shell.type("resume", root["short_id"], GATE=str(gate))
    assert (resumed.returncode, "asked" in resumed.stderr) == (0, True), resumed.stderr
    assert shell.rows("select outcome, reason from executions where agent = 'Lead'") == [
        {"outcome": "partial", "reason": "asked"}
    ]


@requirement("S2-LE-4")
def test_a_tree_is_asked_to_conclude_from_another_process_and_keeps_what_it_found(shell: Shell) -> None:
    gate = shell.gate("gate")
    with ExitStack() as processes:
        running = processes.enter_context(shell.start("run", "Lead", "go", GATE=str(gate)))
        with held(gate):
            root = shell.json("ps")[0]["short_id"]
            asking = processes.enter_context(shell.start("cancel", root, "--wrap-up", "--json"))
            noticed(shell, f"select id from deliveries where kind = 'wrap_up' and execution_id = '{waiter(shell)}'")
        told = json.loads(asking.communicate(timeout=SECONDS)[0])
        running.communicate(timeout=SECONDS)

    assert (running.returncode, asking.returncode) == (0, 0)
    assert (told["cancel"], told["mode"], told["status"], told["outcome"]) == ("done", "wrap_up", "completed", "partial")
    ends = [(each["agent"], each["status"], each["outcome"], each["reason"]) for each in told["executions"]]
    assert ends == [("Lead", "completed", "partial", "asked"), ("Waiter", "completed", "partial", "asked")]

    again = shell.type("cancel", root, "--wrap-up")
    lead, below = again.stdout.splitlines()
    assert re.fullmatch(rf"◕ Lead  {root}  completed, partial \(asked\) before", lead)
    assert re.fullmatch(r"   ◕ Waiter  \w{6}  completed, partial \(asked\) before", below)
    assert again.stderr.startswith("note: it had ended before; `outrider show ")
    both = shell.type("cancel", root, "--wrap-up", "--reason", "enough")
    assert (both.returncode, 'hint: say it to the agent: `outrider message ID "…"`' in both.stderr) == (2, True)
