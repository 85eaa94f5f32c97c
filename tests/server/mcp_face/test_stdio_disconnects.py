"""A client over stdio goes, or is killed, or its server is, or both: whoever serves next finishes the work.

The model is asked by three levels of agents; the lowest has its request under way when the connection ends.
"""

import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.faults.crash.victim import victim
from tests.support.messages_api import Answer, MessagesApi, Received, messages_api, reply, text, tool_use
from tests.support.requirement import requirement
from tests.support.shell import SCRIPT, Shell, make_shell
from tests.support.wire import LEGACY, MODERN, HttpWire, StdioWire, Wire, over_http, served_over_http

HOST = Path(__file__).with_name("host.py")
CONFIG = """\
defaults: {model: Lead, limits: {timeout: 60s}}
models: {Lead: {model: Lead}, Captain: {model: Captain}, Leaf: {model: Leaf}}
agents:
  Lead: {model: Lead, description: sends a captain, sub_agents: [Captain]}
  Captain: {model: Captain, description: sends a leaf, sub_agents: [Leaf]}
  Leaf: {model: Leaf, description: asks its model}
serve: {on_disconnect: WISH, shutdown_grace: 8s}
"""
BELOW = {"Lead": "Captain", "Captain": "Leaf"}
SECONDS, GRACE = 20, 8
ON_THE_WAY = 0.5
"""What an end may take on a machine that has other things to do."""
PACE = 0.05
"""Between two events of the answer that is under way when the connection ends, so that it ends long after it."""


@dataclass
class Scene:
    """A folder, and the model behind it, whose first answer to the leaf is held back."""

    shell: Shell
    asked: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often each turn of each agent was asked for."""
    under_way: anyio.Event = field(default_factory=anyio.Event)
    """Set when the leaf has asked for the first time."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    """Lets that be answered."""
    api: MessagesApi = field(init=False)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def answer(self, received: Received) -> Answer:
        """Everybody sends one agent, waits, and is done."""
        agent, messages = received.body["model"], received.body["messages"]
        turn = sum(message["role"] == "assistant" for message in messages)
        self.asked[agent, turn] += 1
        if agent in BELOW and turn == 0:
            task = {"name": BELOW[agent], "task": "go"}
            return reply(tool_use("dispatch_agent", task, f"toolu_{next(self._numbers)}"))
        if agent == "Leaf" and not self.under_way.is_set():
            self.under_way.set()
            return replace(reply(text("Leaf is done"), gate=self.answered), pace=PACE)
        return reply(text(f"{agent} is done"))

    @property
    def environ(self) -> dict[str, str]:
        """What a served process needs."""
        return {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": self.api.url}

    def stored(self) -> dict[tuple[str, int], int]:
        """The turns whose replies are stored, each to be asked for once."""
        query = (
            "select agent, turn from model_calls join executions on executions.id = execution_id where pricing != 'lost'"
        )
        return {(row["agent"], row["turn"] - 1): 1 for row in self.shell.rows(query)}

    async def end_of(self, execution: str, client: Wire) -> dict[str, Any]:
        """What a client is told when it asks for the result."""
        answer = await client.call("get_result", {"execution_id": execution, "wait_seconds": SECONDS})
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found

    def check(self, stored: Mapping[tuple[str, int], int]) -> None:
        """Nothing is open, and what was stored when the connection ended was not asked for again."""
        assert {("Lead", 0), ("Captain", 0)} <= stored.keys()
        assert {turn: self.asked[turn] for turn in stored} == stored, "a stored reply was asked for again"
        assert max(self.asked.values()) <= 2, "the request under way may be repeated once"
        assert self.shell.rows("select id from executions where finished_at is null") == []


@asynccontextmanager
async def scene(folder: Path, wish: str) -> AsyncIterator[Scene]:
    """A scene under `on_disconnect: WISH`."""
    made = Scene(make_shell(folder, CONFIG.replace("WISH", wish)))
    async with messages_api(made.answer) as made.api:
        yield made


@asynccontextmanager
async def served(at: Scene) -> AsyncIterator[StdioWire]:
    """A client of an `outrider serve` that it has started."""
    async with victim(["serve"], at.shell.folder, at.shell.surroundings(**at.environ)) as process:
        wire = StdioWire(process, LEGACY)
        await wire.greet()
        yield wire


@asynccontextmanager
async def called(at: Scene) -> AsyncIterator[HttpWire]:
    """A client of an `outrider serve --http`."""
    async with served_over_http(at.shell, **at.environ) as (_, url), over_http(url, MODERN) as wire:
        yield wire


async def dispatched(at: Scene, wire: StdioWire) -> str:
    """The id of a tree whose leaf is at work."""
    answer = await wire.call("dispatch_agent", {"name": "Lead", "task": "go"})
    with anyio.fail_after(SECONDS):
        await at.under_way.wait()
    return str(answer["result"]["structuredContent"]["execution_id"])


@asynccontextmanager
async def host(at: Scene) -> AsyncIterator[tuple[Process, psutil.Process, str]]:
    """A host in a process group with its server, that server, and the tree whose leaf is at work. All of it is killed."""
    command = [sys.executable, "-I", "-S", str(HOST), str(SCRIPT), "serve"]
    surroundings = at.shell.surroundings(**at.environ)
    async with await anyio.open_process(
        command, cwd=at.shell.folder, env=surroundings, stderr=None, start_new_session=True
    ) as process:
        assert process.stdout is not None
        told = BufferedByteReceiveStream(process.stdout)
        try:
            with anyio.fail_after(SECONDS):
                _, server = (await told.receive_until(b"\n", 100)).split()
                _, execution = (await told.receive_until(b"\n", 100)).split()
                await at.under_way.wait()
            yield process, psutil.Process(int(server)), execution.decode()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@requirement("S2-MC-3")
@pytest.mark.parametrize(("killed", "serving"), [("client", served), ("both", called)])
async def test_a_client_is_killed_alone_or_with_its_server_and_the_next_serve_finishes_the_work(
    tmp_path: Path, killed: str, serving: Callable[[Scene], AbstractAsyncContextManager[Wire]]
) -> None:
    async with scene(tmp_path, "keep") as at, host(at) as (client, server, execution):
        if killed == "client":
            client.kill()
        else:
            os.killpg(client.pid, signal.SIGKILL)
        stored = at.stored()
        at.answered.set()
        async with serving(at) as wire:
            ended = await at.end_of(execution, wire)
        await anyio.to_thread.run_sync(server.wait, SECONDS)

    assert (ended["status"], ended["result"]["output"]) == ("completed", "Lead is done")
    assert at.asked["Leaf", 0] == (1 if killed == "client" else 2), "a server that lives takes the answer under way"
    at.check(stored)


async def test_a_server_is_killed_and_the_next_one_of_the_same_client_finishes_the_work(tmp_path: Path) -> None:
    async with scene(tmp_path, "keep") as at:
        async with served(at) as wire:
            execution = await dispatched(at, wire)
            wire.process.kill()
            with pytest.raises((anyio.IncompleteRead, anyio.BrokenResourceError)):  # while reading, or already writing
                await wire.call("get_result", {"execution_id": execution})
        stored = at.stored()
        async with served(at) as wire:
            ended = await at.end_of(execution, wire)

    assert (ended["status"], ended["result"]["output"]) == ("completed", "Lead is done")
    assert at.asked["Leaf", 0] == 2, "the request under way is repeated"
    at.check(stored)


async def test_a_client_closes_its_side_and_the_answer_under_way_is_kept_with_the_rest(tmp_path: Path) -> None:
    async with scene(tmp_path, "keep") as at:
        async with served(at) as wire:
            execution = await dispatched(at, wire)
            with anyio.fail_after(GRACE):
                at.answered.set()
                assert await wire.close() == 0
        stored = at.stored()
        assert stored == at.asked, "an answer was cut"
        async with served(at) as wire:
            ended = await at.end_of(execution, wire)

    assert (ended["status"], ended["result"]["output"]) == ("completed", "Lead is done")
    at.check(stored)


async def test_a_client_closes_its_side_and_its_work_is_cancelled_where_that_is_wanted(tmp_path: Path) -> None:
    async with scene(tmp_path, "cancel") as at:
        async with served(at) as wire:
            execution = await dispatched(at, wire)
            with anyio.fail_after(GRACE):
                assert await wire.close() == 0
        asked = at.asked.copy()
        async with served(at) as wire:
            ended = await at.end_of(execution, wire)

    assert ended["status"] == "cancelled"
    assert at.asked == asked, "a model was asked for somebody who had gone"
    [why] = at.shell.rows("select cancel_reason from executions where id = ?", execution)
    assert why["cancel_reason"] == "its client went away"


async def test_a_signal_after_the_client_has_gone_is_quick_because_a_host_kills_soon_after(tmp_path: Path) -> None:
    async with scene(tmp_path, "keep") as at, served(at) as wire:
        await dispatched(at, wire)
        with anyio.move_on_after(0.5) as waited:  # the answer under way is waited for
            await wire.close()
        assert waited.cancelled_caught
        with anyio.fail_after(2 + ON_THE_WAY):
            wire.process.send_signal(signal.SIGTERM)
            code = await wire.process.wait()

    assert code in (0, 130)
    assert {row["status"] for row in at.shell.rows("select status from executions")} == {"running"}
