"""A model API that fails, as the person at a terminal meets it: told while it lasts, outlived by a crash, kept in rows."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.support.messages_api import Answer, MessagesApi, Received, messages_api, refuse, reply, text
from tests.support.shell import Shell, make_shell

CONFIG = """\
models:
  m: {{model: claude-sonnet-5-5, retry: {{{retry}}}}}
agents:
  Quick: {{description: answers}}
"""
KEY = "sk-ant-api03-the-key-of-this-test-0123456789"
BUSY = refuse(529, "overloaded_error", "Overloaded", request_id="req_7")


def shell_at(folder: Path, api: MessagesApi, retry: str = "for: 30s, first_wait: 100ms, longest_wait: 200ms") -> Shell:
    """A shell whose models are behind `api`."""
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}
    return make_shell(folder, CONFIG.format(retry=retry), environ)


async def typed(shell: Shell, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end while the API answers."""
    return await anyio.to_thread.run_sync(lambda: shell.type(*words))


def until_it_waits(running: subprocess.Popen[str]) -> None:
    """Read on until the execution says that it waits for its model."""
    assert running.stderr is not None
    while "~ Quick  model API overloaded (529), retrying in " not in (line := running.stderr.readline()):
        assert line, "it ended"


@pytest.mark.parametrize("ends_by", [signal.SIGKILL, signal.SIGTERM])
async def test_a_process_that_ends_in_the_wait_for_its_model_is_resumed_and_nothing_is_charged(
    ends_by: signal.Signals, tmp_path: Path
) -> None:
    working = anyio.Event()

    def answer(_: Received) -> Answer:
        return reply(text("here again")) if working.is_set() else BUSY

    async with messages_api(answer) as api:
        shell = shell_at(tmp_path, api, "for: 60s, first_wait: 60s, longest_wait: 60s")
        with shell.start("run", "Quick", "look") as running:
            await anyio.to_thread.run_sync(until_it_waits, running)
            running.send_signal(ends_by)
            assert running.wait(5) == (143 if ends_by is signal.SIGTERM else -9)  # nothing under way is waited for
        ((left,),) = [row.values() for row in shell.rows("select id from executions where waiting_for = 'model'")]
        assert "its process is gone" in (await typed(shell, "show", left)).stdout
        working.set()
        resumed = await typed(shell, "resume", left)
    assert (resumed.returncode, resumed.stdout) == (0, "here again\n")
    assert shell.rows("select stop_reason from model_calls") == [{"stop_reason": "end_turn"}]  # and none that was lost
    assert shell.rows("select status, waiting_for from executions") == [{"status": "completed", "waiting_for": None}]


async def test_an_outage_is_told_line_by_line_and_so_is_its_end(tmp_path: Path) -> None:
    async with messages_api(BUSY, BUSY, reply(text("here again"))) as api:
        ran = await typed(shell_at(tmp_path, api), "run", "Quick", "look")
    assert (ran.returncode, ran.stdout) == (0, "here again\n")
    told = [line.partition("~ Quick  ")[2] for line in ran.stderr.splitlines() if "~ Quick" in line]
    *waits, last = told
    assert waits
    assert all(words.startswith("model API overloaded (529), retrying in 0.") for words in waits)
    assert all(words.endswith((" s, giving up in 30 s", " s, giving up in 29 s")) for words in waits)
    assert last.startswith("the model API answers again, after ")


async def test_what_the_provider_said_is_told_wherever_the_failure_is(tmp_path: Path) -> None:
    said = "Your credit balance is too low to access the Anthropic API with "
    refusal = refuse(400, "invalid_request_error", f"{said}{KEY} or sk-proj-of-somebody-else-42", request_id="req_x")
    async with messages_api(refusal) as api:
        shell = shell_at(tmp_path, api)
        ran = await typed(shell, "run", "Quick", "look", "--json")
    told = json.loads(ran.stdout)
    shown, listed = shell.type("show", told["execution_id"]), shell.type("errors")
    as_json, (error,) = shell.json("show", told["execution_id"]), shell.json("errors")["errors"]
    (row,) = shell.rows("select error, result from executions")
    (event,) = shell.rows("select payload from events where type = 'execution.status' and payload like '%failed%'")

    provider = {"status": 400, "type": "invalid_request_error", "message": f"{said}*** or ***", "request_id": "req_x"}
    assert ran.returncode == 1
    assert told["result"]["errors"][0]["context"]["provider"] == provider
    assert f"; the provider said: {said}*** or *** (request req_x)" in told["error"]
    assert "hint: add credit or raise the spending limit at the provider" in ran.stderr
    assert all(said in each for each in (ran.stderr, shown.stdout, listed.stdout, row["error"], error["message"]))
    assert as_json["result"]["errors"][0]["context"]["provider"] == provider
    assert json.loads(event["payload"])["provider"] == error["context"]["provider"] == provider
    everything = "".join(
        (ran.stdout, ran.stderr, shown.stdout, listed.stdout, row["error"], row["result"], event["payload"])
    )
    assert KEY not in everything
    assert "sk-proj" not in everything
