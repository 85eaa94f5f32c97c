"""`outrider dashboard` in a real process: its one page, and how it comes and goes."""

import signal
import socket
from pathlib import Path

import httpx2
import pytest

from tests.support.served_shell import opened
from tests.support.shell import make_shell

MARK = {"X-Outrider": "1"}


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
def test_the_printed_token_opens_one_page_on_an_empty_database(tmp_path: Path, signalled: signal.Signals) -> None:
    shell = make_shell(tmp_path)
    with opened(shell) as (process, url, token), httpx2.Client(base_url=url, timeout=20) as http:
        assert http.get("/").status_code == 200
        for path in ("/api/executions", "/executions.json", "/metrics"):
            assert http.get(path).status_code == 401
        assert http.post("/api/session", json={"token": token}, headers=MARK).status_code == 204
        assert http.get("/api/executions").json()["executions"] == []
        started = http.post("/api/executions", json={"name": "Quick", "task": "go"}, headers=MARK)
        assert started.status_code == 201
        with httpx2.Client(base_url=url) as other:
            again = other.post("/api/session", json={"token": token}, headers=MARK)
            assert (again.status_code, again.json()["detail"]) == (401, "the token is used, or not from this server")
        process.send_signal(signalled)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_signal_while_a_call_runs_is_answered_at_once(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    gate = shell.gate("gate")
    with opened(shell, GATE=str(gate)) as (process, url, token), httpx2.Client(base_url=url, timeout=20) as http:
        http.post("/api/session", json={"token": token}, headers=MARK)
        assert http.post("/api/executions", json={"name": "Lead", "task": "go"}, headers=MARK).status_code == 201
        assert process.stderr is not None
        assert process.stderr.readline().startswith("the token in it opens one page")
        with gate.open("w", encoding="utf-8"):  # opens once the call has come to the gate
            process.send_signal(signal.SIGINT)
            told = process.stderr.readline()
        assert process.wait(30) == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""
    assert told == "note: stopping within 25 s: running calls are finished first; `outrider resume` resumes the rest\n"


def test_it_shows_the_trees_of_dead_processes_and_resumes_one_only_when_asked(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        running_rows = "select id from executions where status = 'running' and agent = 'Waiter'"
        with gate.open("w", encoding="utf-8"):  # opens once the call has come to the gate
            assert shell.rows(running_rows)
            running.kill()
            running.wait(20)
    with opened(shell) as (_, url, token), httpx2.Client(base_url=url, timeout=30) as http:
        http.post("/api/session", json={"token": token}, headers=MARK)
        [line] = http.get("/api/executions?group=attention").json()["executions"]
        assert (line["attention"], line["owner_gone"]) == ("interrupted", True)
        resumed = http.post(f"/api/executions/{line['id']}/resume", json={}, headers=MARK)
        assert resumed.json() == {"status": "resumed", "execution_id": line["id"]}
        assert http.get(f"/api/executions/{line['id']}").json()["node"]["owner_gone"] is False


def test_what_cannot_be_opened_is_refused_in_words(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        in_use = shell.type("dashboard", "--no-open", "--port", port)
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    no_folder = shell.type("dashboard", "--no-open", "--db", f"sqlite:///{tmp_path}/file/x.db")
    (tmp_path / "text.db").write_text("no database" * 1_000, encoding="utf-8")
    no_database = shell.type("dashboard", "--no-open", "--db", f"sqlite:///{tmp_path}/text.db")

    assert in_use.stderr.startswith(
        f"error: cannot listen on `127.0.0.1:{port}`: the port is in use\n\nhint: choose another"
    )
    for refused in (in_use, no_folder, no_database):
        assert refused.returncode != 0
        assert refused.stderr.startswith("error: ")
        assert "\nhint: " in refused.stderr
        assert "internal error" not in refused.stderr
