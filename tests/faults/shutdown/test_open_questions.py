"""A question to a person is open when its process stops: it stays open, with its id and its expiry, however that stops.

Every way to stop, before every face. `OUTRIDER_QUESTION_STOPS` is how often all twelve are tried; without it, four of them
once. After every stop all questions of the round so far must be as they were put: a service that starts goes on with the
trees of those before it, so most questions survive several stops. At the end all are answered, and every call runs once.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.abc import Process

from tests.support.figures import tell
from tests.support.gated import digest_of
from tests.support.shell import GATE_SERVER, Shell, held, make_shell
from tests.support.terminal import screen
from tests.support.wire import LEGACY, MODERN, HttpWire, StdioWire, over_http, over_stdio, served_over_http

ROUNDS = int(os.environ.get("OUTRIDER_QUESTION_STOPS", "0"))
SEED = int(os.environ.get("OUTRIDER_SEED", "0")) or secrets.randbelow(10**9)
FACES = ("stdio", "http", "run")
STOPS = ("SIGTERM", "client leaves", "kill -9", "second SIGTERM")
EVERY = [(face, stop) for face in FACES for stop in STOPS]
SOME = [("stdio", "client leaves"), ("http", "SIGTERM"), ("run", "second SIGTERM"), ("run", "client leaves")]
SECONDS = 40
AT_ONCE = 5
"""Rounds beside each other."""
ASKED = "Waiter  waiting for approval of gate.wait"

CONFIG = f"""\
defaults: {{limits: {{timeout: 60s}}}}
models: {{rehearsed: {{model: none, rehearsal: script.yaml}}}}
mcp_servers:
  gate: {{command: ['{sys.executable}', '-I', '-S', '{GATE_SERVER}', 'opened'], cwd: FOLDER, gates: {{wait: ask}}}}
  slow: {{command: ['{sys.executable}', '-I', '-S', '{GATE_SERVER}', 'closed'], cwd: FOLDER, timeout: 50s}}
agents:
  Lead: {{description: sends somebody, sub_agents: [Waiter, Busy]}}
  Waiter: {{description: waits for a person, mcp_servers: [gate]}}
  Busy: {{description: has a call under way, mcp_servers: [slow]}}
"""
REHEARSAL = """\
agents:
  Lead:
    - {when: start, if: "task == 'busy'", call: [{tool: dispatch_agent, with: {name: Waiter, task: wait}},
                                                 {tool: dispatch_agent, with: {name: Busy, task: work}}]}
    - {when: start, call: [{tool: dispatch_agent, with: {name: Waiter, task: wait}}]}
    - {when: delivered, say: "it is done"}
    - {when: any, say: "I wait"}
  Waiter: [{when: start, call: [{tool: gate.wait}]}, {when: any, say: "I waited"}]
  Busy: [{when: start, call: [{tool: slow.wait}]}, {when: any, say: "I worked"}]
"""


@dataclass
class Round:
    """A folder in which processes stop one after the other, and the questions they put."""

    shell: Shell
    put: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By the top of their trees."""

    def stored(self) -> dict[str, dict[str, Any]]:
        """The questions as rows have them now, with the executions and the calls that wait."""
        rows = self.shell.rows(
            "select a.root_execution_id as root, a.id, a.expires_at, a.decision, e.waiting_for, e.status as execution, "
            "t.status as call from approvals a join executions e on e.id = a.execution_id "
            "join tool_calls t on t.id = a.tool_call_id order by a.id"
        )
        assert len({row["root"] for row in rows}) == len(rows), "a question was put twice"
        return {row.pop("root"): row for row in rows}

    def remember(self) -> None:
        """What was asked before the process stops."""
        found = self.stored()
        new = [root for root in found if root not in self.put]
        assert len(new) == 1
        self.put[new[0]] = found[new[0]]
        assert (found[new[0]]["decision"], found[new[0]]["waiting_for"]) == (None, "approval")

    def check(self) -> None:
        """Nothing of that has changed, and a person at this machine sees every one."""
        assert self.stored() == self.put
        listed = self.shell.json("approve")
        assert {each["approval_id"] for each in listed} == {row["id"] for row in self.put.values()}


class Trial:
    """One process that stops while its question is open."""

    def __init__(self, at: Round, stop: str) -> None:
        self._at, self._stop = at, stop
        self.task = "busy" if stop == "second SIGTERM" else "wait"
        """A call under way keeps the process waiting after the first signal."""
        self._under_way = ExitStack()

    async def before(self, face: str) -> None:
        """Let it be put before a face, and stop its process."""
        with self._under_way:
            await {"stdio": self._over_stdio, "http": self._over_http, "run": self._run}[face]()

    async def _over_stdio(self) -> None:
        async with over_stdio(self._at.shell, LEGACY) as wire:
            await self._ask(wire)
            if self._stop == "client leaves":
                with anyio.fail_after(SECONDS):
                    assert await wire.close() == 0
            else:
                await self._end(wire.process)

    async def _over_http(self) -> None:
        async with served_over_http(self._at.shell) as (process, url):
            async with over_http(url, LEGACY) as wire:
                root = await self._ask(wire)
                if self._stop == "client leaves":
                    await wire.http.delete(wire.url, headers=wire.headers)
                else:
                    await self._end(process)
            if self._stop == "client leaves":  # the service goes on
                async with over_http(url, MODERN) as other:
                    assert (await looked_at(other, root))["waiting_for"] == "approval"
                self._at.check()

    async def _ask(self, wire: StdioWire | HttpWire) -> str:
        started = await wire.call("dispatch_agent", {"name": "Lead", "task": self.task})
        root = str(started["result"]["structuredContent"]["execution_id"])
        with anyio.fail_after(SECONDS):
            while (await looked_at(wire, root)).get("waiting_for") != "approval":
                continue
        self._at.remember()
        await anyio.to_thread.run_sync(self._begin_a_call)
        return root

    def _begin_a_call(self) -> None:
        if self.task == "busy":
            self._under_way.enter_context(held(self._at.shell.folder / "closed"))

    async def _end(self, process: Process) -> None:
        with anyio.fail_after(SECONDS):
            os.kill(process.pid, signal.SIGKILL if self._stop == "kill -9" else signal.SIGTERM)
            while self._stop == "second SIGTERM" and process.returncode is None:
                with anyio.move_on_after(0.2):  # a signal that comes while one like it is pending is lost
                    await process.wait()
                    break
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)  # not `terminate`, which would take the end from who waits for it
            code = await process.wait()
        # A third signal may cut the end of the interpreter.
        ends = {"kill -9": (-signal.SIGKILL,), "second SIGTERM": (0, 130, -signal.SIGTERM)}
        assert code in ends.get(self._stop, (0,))

    async def _run(self) -> None:
        await anyio.to_thread.run_sync(self._before_a_terminal if self._stop == "client leaves" else self._piped)

    def _piped(self) -> None:
        with self._at.shell.start("run", "Lead", self.task) as process:
            assert process.stderr is not None
            assert any(ASKED in line for line in process.stderr)
            self._at.remember()
            self._begin_a_call()
            if self._stop == "kill -9":
                process.kill()
            else:
                process.terminate()
            if self._stop == "second SIGTERM":
                assert any("a second signal exits at once" in line for line in process.stderr)
                process.terminate()
            code = process.wait(SECONDS)
        assert code == (-9 if self._stop == "kill -9" else 143)

    def _before_a_terminal(self) -> None:
        with screen(self._at.shell, "run", "Lead", self.task) as terminal:
            terminal.until("Allow?")
            self._at.remember()
        assert terminal.process.returncode == 143


async def looked_at(wire: StdioWire | HttpWire, execution: str) -> dict[str, Any]:
    """How an execution stands."""
    answer = await wire.call("get_result", {"execution_id": execution, "wait_seconds": 0})
    return dict(answer["result"]["structuredContent"])


async def answered(at: Round) -> None:
    """Every question gets its answer, and every tree comes to its end."""
    async with over_stdio(at.shell, MODERN) as wire:
        for root, row in at.put.items():
            digest = digest_of(at.shell, row["id"])
            allowed = at.shell.type("approve", row["id"], "--yes", digest)
            assert allowed.returncode == 0, allowed.stderr
            answer = await wire.call("get_result", {"execution_id": root, "wait_seconds": 30})
            assert answer["result"]["structuredContent"]["status"] == "completed"
        assert await wire.close() == 0
    calls = at.shell.rows("select status from tool_calls where tool = 'gate.wait'")
    assert [call["status"] for call in calls] == ["completed"] * len(at.put)


async def go_round(folder: Path, seed: int, turn: anyio.CapacityLimiter) -> None:
    """Stop a process in every way, then answer what is open."""
    async with turn:
        shell = make_shell(folder, CONFIG.replace("FOLDER", str(folder)))
        (folder / "script.yaml").write_text(REHEARSAL, encoding="utf-8")
        (folder / "opened").write_text("the gate is open", encoding="utf-8")
        os.mkfifo(folder / "closed")
        at, cells = Round(shell), list(EVERY if ROUNDS else SOME)
        random.Random(seed).shuffle(cells)
        for face, stop in cells:
            await Trial(at, stop).before(face)
            at.check()
        await answered(at)
        tell(stops=len(at.put))


@pytest.mark.timeout(0 if ROUNDS else 120)
async def test_an_open_question_survives_every_stop_of_every_face(tmp_path: Path) -> None:
    turn = anyio.CapacityLimiter(AT_ONCE)
    async with anyio.create_task_group() as group:
        for number in range(ROUNDS or 1):
            (tmp_path / str(number)).mkdir()
            group.start_soon(go_round, tmp_path / str(number), SEED + number, turn)
