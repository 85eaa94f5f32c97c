"""A process that cannot run an interrupted tree leaves it as it is, and every command says what the tree waits for."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.server.mcp_face.host import VERSION, ask, call, send
from tests.support.shell import SCRIPT, Shell, held, make_shell

ROUNDS = int(os.environ.get("OUTRIDER_PROJECTS", "2"))
"""Starts and stops of the other project."""
SECONDS = 40

CONFIG = """\
defaults: {model: rehearsed}
models:
  rehearsed: {model: none, rehearsal: script.yaml}
  paid: {model: claude-any, base_url: 'http://127.0.0.1:PORT', api_key: '${PAID_KEY}'}
agents:
  Lead: {description: sends somebody, sub_agents: [Waiter]}
  Waiter: {description: asks a model that costs money, model: paid}
  Quick: {description: answers at once}
"""
OTHER = "models: {rehearsed: {model: none, rehearsal: script.yaml}}\nagents: {Quick: {description: answers at once}}\n"
TABLES = ("executions", "events", "messages", "model_calls", "tool_calls", "deliveries", "approvals", "error_records")
KEY = {"PAID_KEY": "canary"}


@pytest.fixture
def interrupted(tmp_path: Path) -> Iterator[Shell]:
    """A project whose process was killed while a child of its tree waited for a model that needs a key."""
    folder = tmp_path / "first"
    folder.mkdir()
    with closing(socket.create_server(("127.0.0.1", 0))) as provider:  # it takes requests and never answers
        provider.settimeout(SECONDS)
        shell = make_shell(folder, CONFIG.replace("PORT", str(provider.getsockname()[1])))
        with shell.start("run", "Lead", "go", **KEY) as running, closing(provider.accept()[0]) as asked:
            assert asked.recv(1)
            running.kill()
            running.wait(SECONDS)
        yield shell


def everything(database: Path) -> dict[str, Any]:
    """All that is stored of executions, row by row."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {table: connection.execute(f"select * from {table} order by 1").fetchall() for table in TABLES}


def serve_and_stop(shell: Shell, stop: int | None, look_at: str = "", **environ: str) -> Mapping[str, Any]:
    """Start a service, wait until it has answered, and stop it: by a signal, or because its client leaves.

    Return what it says of an execution.
    """
    with subprocess.Popen(
        [SCRIPT, "serve"],
        cwd=shell.folder,
        env=shell.surroundings(**environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            ask(server, "initialize", protocolVersion=VERSION, capabilities={}, clientInfo={"name": "host", "version": "1"})
            send(server, {"method": "notifications/initialized"})
            assert call(server, "list_agents")["agents"]
            told = call(server, "get_result", execution_id=look_at, wait_seconds=0) if look_at else {}
            assert server.stdin is not None
            server.stdin.close() if stop is None else server.send_signal(stop)
            server.wait(SECONDS)
        finally:
            server.kill()
    return told


@pytest.mark.timeout(60 + 10 * ROUNDS)
@pytest.mark.parametrize("shares", [False, True], ids=["own databases", "one database"])
def test_another_project_without_the_key_never_touches_interrupted_trees(
    interrupted: Shell, tmp_path: Path, shares: bool
) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    environ = {"OUTRIDER_DATABASE_URL": str(interrupted.database)} if shares else {}
    second = make_shell(folder, OTHER, environ)
    before = everything(interrupted.database)

    for each in range(ROUNDS):
        serve_and_stop(second, (signal.SIGTERM, None, signal.SIGKILL)[each % 3])
    serve_and_stop(interrupted, signal.SIGTERM)  # the same project, and still no key

    assert everything(interrupted.database) == before
    assert second.database.exists() is not shares


def test_every_command_says_what_an_interrupted_tree_needs_and_none_changes_it(interrupted: Shell) -> None:
    before = everything(interrupted.database)
    [root] = interrupted.json("ps")

    refused = interrupted.type("resume", root["short_id"])
    listed = interrupted.type("ps")
    told = json.loads(interrupted.type("doctor", "--json").stdout)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.endswith("cannot be resumed here: it needs PAID_KEY\n\nhint: set `PAID_KEY`\n")
    answered = serve_and_stop(interrupted, signal.SIGTERM, look_at=root["id"])
    assert "to be resumed it needs PAID_KEY" in json.dumps(answered)
    shown = interrupted.type("show", root["short_id"]).stdout
    assert "interrupted, and cannot be resumed here: needs PAID_KEY" in shown
    assert interrupted.json("show", root["short_id"])["needs"] == root["needs"]
    assert root["needs"] == [{"kind": "key", "name": "PAID_KEY", "hint": "set `PAID_KEY`", "words": "PAID_KEY"}]
    assert "interrupted; needs PAID_KEY" in listed.stdout
    assert "set `PAID_KEY`" in listed.stderr
    [found] = [check for check in told["checks"] if check["name"] == "interrupted"]
    assert found["detail"] == f"1 interrupted tree cannot be resumed here: needs PAID_KEY ({root['short_id']})"
    assert (found["state"], found["hint"]) == ("attention", "set `PAID_KEY`")
    assert everything(interrupted.database) == before

    assert interrupted.json("cancel", root["short_id"])["status"] == "cancelled"
    assert interrupted.json("ps") == []


def test_with_the_key_the_tree_goes_on(interrupted: Shell) -> None:
    [root] = interrupted.json("ps")

    with interrupted.start("resume", root["id"], **KEY):
        deadline = SECONDS * 20
        while not (found := interrupted.rows("select attempt from executions where attempt = 2")) and deadline:
            deadline -= 1
            interrupted.type("sql", "select 1")  # takes a moment

    assert len(found) == 2


def test_a_running_tree_is_not_taken_from_its_process_when_its_sign_of_life_is_replaced(shell: Shell) -> None:
    gate = shell.gate("gate")
    with shell.start("run", "Lead", "go", GATE=str(gate)) as running:
        with held(gate):
            [sign] = shell.database.with_name("outrider.db-owners").iterdir()
            for name in (sign, shell.database.with_name("outrider.db-lock")):
                (shell.folder / "mine").write_text("mine", encoding="utf-8")
                (shell.folder / "mine").replace(name)
            [root] = shell.json("ps")
            refused = shell.type("resume", root["id"])
            serve_and_stop(shell, signal.SIGTERM)
        answer, told = running.communicate(timeout=SECONDS)

    assert root["owner_gone"] is False
    assert (refused.returncode, "is running" in refused.stderr) == (3, True), refused.stderr
    assert (running.returncode, answer) == (0, "[rehearsed] it is done\n"), told
    assert {row["attempt"] for row in shell.rows("select attempt from executions")} == {1}
