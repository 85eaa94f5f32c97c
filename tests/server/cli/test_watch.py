"""`watch` and `ps --watch`: what any process runs, seen from another terminal, which can leave and changes nothing."""

import io
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL as NULL
from subprocess import Popen, TimeoutExpired
from typing import Any

import anyio
import pytest
from rich.cells import cell_len

from server.cli.show.tree_model import TreeModel
from server.cli.show.tree_view import TreeWindow
from server.cli.terminal.console import TerminalConsole
from server.cli.terminal.window import FRAME_SECONDS
from tests.support.shell import SCRIPT, SECONDS, Shell, held, make_shell
from tests.support.terminal import screen, watched

LEAVE = "\x03"
FRAMES = 20


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A shell with a finished tree, Lead and a Waiter, and one that failed."""
    shell = make_shell(tmp_path_factory.mktemp("ran"))
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            pass
        running.communicate(timeout=SECONDS)
    assert shell.type("run", "Broken", "go").returncode == 1
    return shell


def identifier(shell: Shell, agent: str) -> str:
    """The newest execution of an agent, once there is one."""
    limit = time.monotonic() + SECONDS
    while not (rows := shell.rows("select id from executions where agent = ? order by id desc", agent)):
        assert time.monotonic() < limit, f"no {agent} began"
    return str(rows[0]["id"])


def test_a_tree_that_has_ended_is_shown_from_its_first_event_and_its_exit_code_is_given(ran: Shell) -> None:
    done = ran.type("watch", identifier(ran, "Lead"))
    failed = ran.type("watch", identifier(ran, "Broken"))

    assert (done.returncode, done.stdout) == (0, "[rehearsed] it is done\n")
    told = [" ".join(line.split()[2:]) for line in done.stderr.splitlines()]
    assert told[:4] == ["○ Lead pending: go", "◐ Lead running", "○ Lead › Waiter pending: wait", "◐ Lead › Waiter running"]
    assert told[4].startswith("● Lead › Waiter completed: I waited (")
    assert re.search(r"note: 2 executions, .* shows it again\n$", done.stderr)
    assert failed.returncode == 1
    assert "\n  in Broken (failed, " in failed.stderr
    times = [float(line.split()[0].removesuffix("s")) for line in done.stderr.splitlines()[:5]]
    assert times == sorted(times)
    assert times[0] == 0.0, "times count from the beginning of the tree, whenever it is watched"


def test_any_node_can_be_watched_with_what_is_below_it_alone(ran: Shell) -> None:
    waiter = identifier(ran, "Waiter")

    done = ran.type("watch", waiter[-6:])
    events = [json.loads(line) for line in ran.type("watch", waiter, "--json").stdout.splitlines()]

    assert (done.returncode, done.stdout) == (0, "[rehearsed] I waited\n")
    assert all("Lead" not in line for line in done.stderr.splitlines())
    assert {event["execution_id"] for event in events} == {waiter}


def test_programs_get_every_event_once_a_line_each(ran: Shell) -> None:
    done = ran.type("watch", identifier(ran, "Lead"), "--json")

    stored = ran.rows("select * from events where root_execution_id = ? order by seq", identifier(ran, "Lead"))
    assert done.returncode == 0
    assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == [row["seq"] for row in stored]
    assert json.loads(done.stdout.splitlines()[0])["payload"]["status"] == "pending"
    assert done.stderr == ""


def test_what_cannot_be_watched_is_refused_in_words(ran: Shell, tmp_path: Path) -> None:
    unknown = ran.type("watch", "nothing")
    nowhere = ran.type("watch", "nothing", "--db", str(tmp_path / "none.db"))
    told = ran.type("watch", "nothing", "--json")
    listed = ran.type("ps", "--watch", "--db", str(tmp_path / "none.db"))
    two = ran.type("ps", "--watch", "--registry")

    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (4, "error: no execution `nothing`")
    assert [nowhere.returncode, listed.returncode, two.returncode] == [2, 2, 2]
    assert "error: no database at" in nowhere.stderr
    assert not list(tmp_path.iterdir()), "nothing is created"
    assert [json.loads(line)["error"]["exit"] for line in told.stdout.splitlines()] == [4]


def test_leaving_stops_nothing(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate), screen(shell, "watch", identifier(shell, "Lead")) as seen:
            seen.until("calling gate.wait")
            seen.press(LEAVE)
            code, rest = seen.end()
        answer, _ = running.communicate(timeout=SECONDS)

    assert code == 130
    assert "error" not in rest
    assert re.search(r"note: left, and stopped nothing; `outrider watch \w{6}` watches it again", rest)
    assert rest.count("\x1b[?25h") == 1, "the cursor is back"
    assert (running.returncode, answer) == (0, "[rehearsed] it is done\n")


def test_a_closed_terminal_ends_the_watching_and_nothing_else(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            with screen(shell, "watch", identifier(shell, "Lead")) as seen:
                seen.until("calling gate.wait")
            assert seen.process.returncode is not None
            assert running.poll() is None
        running.communicate(timeout=SECONDS)

    assert running.returncode == 0


def open_tree(shell: Shell) -> tuple[Popen[str], Path]:
    """A tree whose Waiter is at the gate, and the process that runs it."""
    gate = shell.gate("gate")
    environ = shell.surroundings(GATE=str(gate))
    return Popen(
        [SCRIPT, "run", "Lead", "go"], cwd=shell.folder, env=environ, stdout=NULL, stderr=NULL, stdin=NULL, text=True
    ), gate


def end(running: Popen[str], stop: signal.Signals) -> None:
    """End it, as often as it takes: the call at the gate does not end, and two signals at once may arrive as one."""
    for _ in range(SECONDS):
        running.send_signal(stop)
        with suppress(TimeoutExpired):
            running.wait(1)
            return
    raise AssertionError("it goes on")


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGTERM])
def test_a_terminal_says_what_resumes_a_tree_whose_process_is_gone_and_goes_on_after_that(
    shell: Shell, stop: signal.Signals
) -> None:
    running, gate = open_tree(shell)
    with held(gate), screen(shell, "watch", identifier(shell, "Lead")) as seen:
        seen.until("calling gate.wait")
        end(running, stop)
        lead = identifier(shell, "Lead")
        seen.until(f"its process is gone, `outrider resume {lead[-6:]}` resumes it")
        resumed = shell.type("resume", lead, GATE="none")
        code, rest = seen.end()

    assert resumed.returncode == 0, resumed.stderr
    assert code == 0
    assert "a process has resumed it" in rest
    assert "it is done" in rest[rest.index("total") :]


def test_a_pipe_ends_when_the_process_is_gone_and_says_what_resumes_it(shell: Shell) -> None:
    running, gate = open_tree(shell)
    with held(gate), shell.start("watch", identifier(shell, "Lead")) as lines:
        assert lines.stderr is not None
        while "Waiter  running" not in lines.stderr.readline():
            pass
        running.kill()
        running.wait(SECONDS)
        _, told = lines.communicate(timeout=SECONDS)

    assert lines.returncode == 1
    assert "error: the process that ran it is gone, and it has not ended\n\nhint: `outrider resume " in told
    assert shell.type("watch", identifier(shell, "Lead"), "--json").returncode == 1


@pytest.mark.parametrize(("rows", "columns"), [(12, 30), (5, 80)])
def test_no_frame_is_larger_than_the_terminal(ran: Shell, rows: int, columns: int) -> None:
    with screen(ran, "watch", identifier(ran, "Lead"), rows=rows, columns=columns) as seen:
        code, text = seen.end()

    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "").split("[rehearsed]")[0]
    assert code == 0
    assert max(map(cell_len, plain.splitlines())) < columns


def test_a_window_follows_the_size_of_its_terminal(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate), screen(shell, "watch", identifier(shell, "Lead"), rows=20, columns=120) as seen:
            seen.until("calling gate.wait")
            seen.resize(20, 36)
            seen.until("\x1b[J")
            frame = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.until("total")).replace("\r", "")
            assert max(map(cell_len, frame.splitlines())) < 36
            seen.press(LEAVE)
            seen.end()
        running.communicate(timeout=SECONDS)


def test_no_frame_is_erased_from_the_first_line_of_a_screen_on(shell: Shell) -> None:
    """A terminal such as tmux keeps what is erased so in its scroll-back, frame after frame."""
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate), screen(shell, "watch", identifier(shell, "Lead")) as seen:
            seen.until("calling gate.wait")
            erased = [seen.until("\x1b[J") for _ in range(3)]
            seen.press(LEAVE)
            seen.end()
        running.communicate(timeout=SECONDS)

    assert all(each.endswith("\x1b[2K\x1b[1B\x1b[J") for each in erased)


def events_of(executions: int) -> Iterator[dict[str, Any]]:
    """The events of a tree whose agents all run, ten below each of the first."""
    for number in range(executions):
        parent = str((number - 1) // 10) if number else None
        for status in ("pending", "running"):
            payload = {"status": status, "agent": f"Agent{number % 7}", "task": f"task {number}"}
            yield {
                "seq": None,
                "execution_id": f"{number:06}" if number else "0",
                "parent_execution_id": f"{int(parent):06}" if parent not in (None, "0") else parent,
                "root_execution_id": "0",
                "type": "execution.status",
                "payload": json.dumps(payload),
                "at": "2026-01-01T00:00:00.000000Z",
            }


async def test_a_frame_of_a_thousand_agents_costs_what_the_lines_of_the_terminal_cost() -> None:
    written = io.StringIO()
    window = TreeWindow(TerminalConsole(file=written, force_terminal=True, width=120, height=40))
    model = TreeModel()
    for event in events_of(1_000):
        assert model.apply(event) is not None

    frame, cost = "", 0.0
    async with anyio.create_task_group() as group:
        group.start_soon(window.paint, model)
        await anyio.wait_all_tasks_blocked()
        frame = written.getvalue()
        began = time.process_time()
        for _ in range(FRAMES):
            window.lines(119, 39)
        cost = (time.process_time() - began) / FRAMES
        group.cancel_scope.cancel()

    assert len(frame.splitlines()) == 39
    assert "1,000 executions" in frame.splitlines()[-1]
    assert cost < FRAME_SECONDS / 4, f"{1000 * cost:.1f} ms a frame"


def test_the_list_groups_what_needs_attention_what_runs_and_what_has_ended(ran: Shell) -> None:
    with screen(ran, "ps", "--watch") as seen:
        text = seen.until("Ctrl-C leaves and stops nothing")
        seen.press(LEAVE)
        code, rest = seen.end()

    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "").splitlines()
    order = [
        next(place for place, line in enumerate(lines) if mark in line)
        for mark in ("attention (1)", "✕", "Finished (1)", "●")
    ]
    assert order == sorted(order)
    assert (code, "note: left, and stopped nothing" in rest) == (0, True), "leaving is the only end it has"


def test_the_list_follows_what_others_do_and_its_rows_fit_its_terminal(shell: Shell) -> None:
    assert shell.type("run", "Quick", "go").returncode == 0
    with screen(shell, "ps", "--watch", rows=7, columns=38) as seen:
        seen.until("Finished (1)")
        for _ in range(6):
            assert shell.type("run", "Quick", "go").returncode == 0
        seen.until("Finished (7, 4 not shown)")
        frame = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.until("Ctrl-C")).replace("\r", "").splitlines()
        seen.press(LEAVE)
        seen.end()

    assert len(frame) <= 6
    assert max(map(cell_len, frame)) < 38


def test_programs_get_a_line_for_each_change_of_the_list(shell: Shell) -> None:
    assert shell.type("run", "Quick", "go").returncode == 0
    with shell.start("ps", "--watch", "--json") as listing:
        assert listing.stdout is not None
        first = json.loads(listing.stdout.readline())
        assert (first["group"], first["agent"]) == ("finished", "Quick")
        assert shell.type("run", "Broken", "go").returncode == 1
        while (entry := json.loads(listing.stdout.readline()))["group"] != "attention":
            assert entry["agent"] == "Broken"
        assert entry["status"] == "failed"
        os.kill(listing.pid, signal.SIGINT)
        listing.communicate(timeout=SECONDS)

    assert listing.returncode == 0


def test_a_terminal_that_cannot_redraw_gets_lines(ran: Shell) -> None:
    code, lines = watched(ran, "watch", identifier(ran, "Lead"), TERM="dumb")

    assert code == 0
    assert any(re.search(r"● Lead › Waiter  completed: I waited", line) for line in lines)
