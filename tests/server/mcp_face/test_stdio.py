"""`outrider serve` as hosts start it: real processes, their streams, their signals, their end."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.support.gates import at_gate
from tests.support.requirement import requirement
from tests.support.shell import CONFIG, SCRIPT, Shell, held, make_shell
from tests.support.sources import ROOT
from tests.support.wire import (
    LEGACY,
    LONGEST,
    MODERN,
    StdioWire,
    introduction,
    over_stdio,
    peak,
    problem_of,
    request,
    wired,
)


async def said(wire: StdioWire, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a tool that succeeds."""
    answer = await wire.call(tool, arguments)
    assert not answer["result"]["isError"], answer
    return dict(answer["result"]["structuredContent"])


async def dispatched(wire: StdioWire, name: str) -> str:
    """The id of an execution just begun."""
    return str((await said(wire, "dispatch_agent", name=name, task="go"))["execution_id"])


def statuses(shell: Shell) -> set[str]:
    """How executions stand, as the rows say."""
    return {row["status"] for row in shell.rows("select status from executions")}


@requirement("S2-MC-7")
async def test_nothing_but_the_protocol_reaches_the_output_whatever_an_agent_prints(shell: Shell) -> None:
    command = [sys.executable, "-W", "always", "-m", "tests.server.mcp_face.noisy", str(shell.folder)]
    environ = shell.surroundings(PYTHONPATH=str(ROOT))
    async with wired(command, shell.folder, environ, MODERN) as wire:
        for number in range(3):  # each line that comes is checked to be a message
            ended = await said(wire, "run_agent", name="Noisy", task=f"shout {number}", wait_seconds=20)
            assert ended["result"]["output"] == f"shout {number} done"
        with anyio.fail_after(2):
            assert await wire.close() == 0
        assert await wire.rest() == b""

    noise = (shell.folder / "stderr").read_text(encoding="utf-8")
    for words in ("printed", "written", "warned", "forged", "said by a child"):
        assert noise.count(words) >= 3, words


async def test_a_host_that_closes_its_side_ends_the_process_within_the_grace_and_its_work_is_kept(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, f"{CONFIG}serve: {{shutdown_grace: 3s}}\n")
    gate = shell.gate("gate")
    async with over_stdio(shell, LEGACY, GATE=str(gate)) as wire:
        await dispatched(wire, "Lead")
        async with at_gate(gate):
            with anyio.fail_after(4):
                assert await wire.close() == 0
            assert statuses(shell) == {"running"}


@pytest.mark.parametrize(("wish", "left"), [("keep", "running"), ("cancel", "cancelled")])
async def test_a_signal_ends_it_though_the_host_still_listens(tmp_path: Path, wish: str, left: str) -> None:
    shell = make_shell(tmp_path, f"{CONFIG}serve: {{on_disconnect: {wish}, shutdown_grace: 3s}}\n")
    gate = shell.gate("gate")
    async with over_stdio(shell, MODERN, GATE=str(gate)) as wire:
        await dispatched(wire, "Lead")
        async with at_gate(gate):
            with anyio.fail_after(4):
                wire.process.send_signal(signal.SIGTERM)
                assert await wire.process.wait() == 0
            assert statuses(shell) == {left}


@pytest.mark.parametrize(
    ("config", "words", "told"),
    [
        ("agents: {Left: {descripton: x}}\n", (), "descripton"),
        (CONFIG, ("--db", "sqlite:////proc/nowhere/outrider.db"), "/proc/nowhere"),
    ],
)
def test_what_cannot_be_served_ends_it_with_words_and_a_code(
    tmp_path: Path, config: str, words: tuple[str, ...], told: str
) -> None:
    shell = make_shell(tmp_path, config)
    with subprocess.Popen(
        [SCRIPT, "serve", *words], cwd=tmp_path, env=shell.surroundings(), stdin=-1, stdout=-1, stderr=-1, text=True
    ) as process:
        code = process.wait(20)  # its input is open all the while
        assert process.stdout is not None
        assert process.stderr is not None
        out, notes = process.stdout.read(), process.stderr.read()

    assert (code, out) == (2, "")
    assert notes.startswith("error: ")
    assert "\nhint: " in notes
    assert told in notes
    assert "Traceback" not in notes


@contextmanager
def mute_host(shell: Shell, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """A host that writes and never reads."""
    process = subprocess.Popen(
        [SCRIPT, "serve"], cwd=shell.folder, env=shell.surroundings(**environ), stdin=-1, stdout=-1, bufsize=0
    )
    with process:
        yield process
        process.kill()


def flood(process: subprocess.Popen[bytes]) -> None:
    """Ask until no more is taken for a while."""
    assert process.stdin is not None
    os.set_blocking(process.stdin.fileno(), False)
    line = json.dumps(request(7, "tools/list", {}, MODERN)).encode() + b"\n"
    for _ in range(20_000):
        if not select.select([], [process.stdin], [], 1)[1]:
            return
        process.stdin.write(line)
    raise AssertionError("everything was taken")


async def test_a_host_that_stops_reading_stops_neither_the_work_nor_the_end_and_costs_little(shell: Shell) -> None:
    gate = shell.gate("gate")
    call = request(1, "tools/call", {"name": "dispatch_agent", "arguments": {"name": "Lead", "task": "go"}}, MODERN)
    with mute_host(shell, GATE=str(gate)) as mute:
        assert mute.stdin is not None
        mute.stdin.write(json.dumps(call).encode() + b"\n")
        async with over_stdio(shell, MODERN) as other:
            async with at_gate(gate):
                before = peak(mute.pid)
                await anyio.to_thread.run_sync(flood, mute)
            [row] = shell.rows("select id from executions where agent = 'Lead'")
            ended = await said(other, "get_result", execution_id=row["id"], wait_seconds=20)
        grown = peak(mute.pid) - before
        mute.stdin.close()
        assert await anyio.to_thread.run_sync(mute.wait, 2) == 0

    assert ended["status"] == "completed"
    assert grown < 64 * 1024


@requirement("S2-MC-3")
async def test_two_hosts_on_one_database_see_steer_and_stop_each_others_executions(shell: Shell) -> None:
    gate = shell.gate("gate")
    async with over_stdio(shell, LEGACY, GATE=str(gate)) as one, over_stdio(shell, MODERN) as other:
        first = await dispatched(one, "Lead")
        async with at_gate(gate):
            running = await said(other, "get_result", execution_id=first, wait_seconds=0)
            sent = await said(other, "send_message", execution_id=first, text="mind the gap")
        waited = await said(other, "wait_for", execution_ids=[first], wait_seconds=20)
        again = await said(one, "get_result", execution_id=first, wait_seconds=20)
        second = await dispatched(one, "Lead")
        async with at_gate(gate):
            await said(other, "cancel_agent", execution_id=second, reason="enough")
            stopped = await said(one, "get_result", execution_id=second, wait_seconds=20)

    assert (running["status"], sent["message"]) == ("running", "accepted")
    assert waited["executions"] == [again]
    assert again["status"] == "completed"
    assert stopped["status"] == "cancelled"
    assert shell.rows("select cancel_reason from executions where id = ?", second)[0]["cancel_reason"] == "enough"
    assert "mind the gap" in str(shell.rows("select content from messages where execution_id = ?", first))


HOST = """
import json, subprocess, sys
child = subprocess.Popen(json.loads(sys.argv[1]), stdin=-1, stdout=-1, pass_fds=[int(sys.argv[2])])
child.stdin.write(sys.argv[3].encode() + b"\\n")
child.stdin.flush()
child.wait()
"""


def test_a_host_that_is_killed_leaves_no_process_behind(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, f"{CONFIG}serve: {{shutdown_grace: 3s}}\n")
    gate = shell.gate("gate")
    call = request(1, "tools/call", {"name": "dispatch_agent", "arguments": {"name": "Lead", "task": "go"}}, MODERN)
    ours, theirs = os.pipe()  # held open by whoever is still alive
    words = [sys.executable, "-c", HOST, json.dumps([str(SCRIPT), "serve"]), str(theirs), json.dumps(call)]
    environ = shell.surroundings(GATE=str(gate))
    with subprocess.Popen(words, cwd=shell.folder, env=environ, pass_fds=[theirs]) as host, os.fdopen(ours, "rb") as alive:
        os.close(theirs)
        with held(gate) as writer:
            host.kill()
            assert select.select([alive], [], [], 5)[0]
            assert alive.read() == b""
            with pytest.raises(BrokenPipeError):
                os.write(writer.fileno(), b"is anybody there?")

    assert statuses(shell) == {"running"}


async def test_a_line_that_is_too_long_is_answered_to_its_own_id_and_no_others(shell: Shell) -> None:
    long = json.dumps({"method": "tools/call", "params": {"id": 2, "x": "y" * 5_000_000}, "jsonrpc": "2.0", "id": 3})
    async with over_stdio(shell, LEGACY) as wire:
        await wire.send(long.encode() + b"\n")
        refused = await wire.receive()
        answered = await wire.ask("tools/list")

    assert (refused["id"], refused["error"]["code"]) == (3, -32600)
    assert "longer than 4 MB" in refused["error"]["message"]
    assert answered["result"]["tools"]
    assert len(long) < LONGEST


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
async def test_a_client_of_the_first_revisions_reads_answers_and_errors(shell: Shell, version: str) -> None:
    command = [str(SCRIPT), "serve"]
    async with await anyio.open_process(command, cwd=shell.folder, env=shell.surroundings(), stderr=None) as process:
        wire = StdioWire(process, LEGACY)
        greeted = await wire.ask("initialize", introduction(version=version))
        await wire.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        listed = await wire.ask("tools/list")
        done = await wire.call("run_agent", {"name": "Quick", "task": "count", "wait_seconds": 20})
        refused = await wire.call("get_result", {"execution_id": "nobody"})
        assert await wire.close() == 0

    assert greeted["result"]["protocolVersion"] == version
    assert "get_result" in [tool["name"] for tool in listed["result"]["tools"]]
    assert done["result"]["content"][0]["text"].startswith("Quick completed")
    assert problem_of(refused)["type"] == "not_found"
    assert refused["result"]["content"][0]["text"].startswith("error: ")
