"""Another service on the same database, in a process of its own: what tests of several processes start.

Owns: a program `python -m tests.runner.service.neighbour FOLDER` that carries out one line of standard input after
another, and the handle by which a test speaks to it. Must not know: what a test expects. Invariant: it answers each line
with one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread

from runner.errors import Refusal
from runner.service.order import Order
from tests.support.models import call, gate, hang, say
from tests.support.reading import dispatch, dispatched, shown
from tests.support.service import Bench, bench
from tests.support.sources import ROOT

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Stuck], max_concurrent_agents: 1, description: sends somebody}
  Pair: {sub_agents: [Left], description: sends one and waits for it}
  Left: {description: looks left}
  Stuck: {description: never ends}
  Held: {description: waits until it is let go}
"""


class Neighbour:
    """The process, as a test sees it."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.runner.service.neighbour", str(folder)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, verb: str, **arguments: Any) -> None:
        """Give it something to do."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([verb, arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What it says next."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Give it something to do, and wait for its answer."""
        self.tell(verb, **arguments)
        return self.answer()

    def kill(self) -> None:
        """End it as an operating system does."""
        self.process.kill()
        self.process.wait()


@contextmanager
def neighbours(folder: Path, count: int = 1) -> Iterator[list[Neighbour]]:
    """Services on the database of a bench in `folder`; what each says first is its owner."""
    started = [Neighbour(folder) for _ in range(count)]
    try:
        for each in started:
            assert each.answer()
        yield started
    finally:
        for each in started:
            each.process.communicate(timeout=20)


# What follows runs in the other process.

released = anyio.Event()


async def start(service: Bench, **order: Any) -> list[Any]:
    """Start an execution; answer its id and whether it was there before, or why it was refused."""
    try:
        child, before = await service.dispatcher.start_once(Order(**order))
    except Refusal as refusal:
        return [refusal.kind, str(refusal)]
    return [child.id, before]


async def let_go(_: Bench) -> bool:
    """Let those go on that are held."""
    released.set()
    return True


async def noticed(service: Bench, execution: str) -> bool:
    """Wait until something has arrived in the inbox of an execution."""
    live = service.dispatcher.tree.get(execution)
    with anyio.fail_after(10):
        while live is not None and not live.inbox.arrived:
            await anyio.lowlevel.checkpoint()
    return True


async def calling(service: Bench, execution: str, tool: str) -> bool:
    """Wait until an execution waits for a tool."""
    live = service.dispatcher.tree.get(execution)
    with anyio.fail_after(10):
        while live is not None and live.activity != f"calling {tool}":
            await anyio.lowlevel.checkpoint()
    return True


async def adopt(service: Bench) -> int:
    """Go on with what other processes left open; answer how many trees."""
    return await service.dispatcher.adopt()


async def asked(service: Bench, agent: str, count: int) -> bool:
    """Wait until an agent has asked its model so often."""
    with anyio.fail_after(10):
        await service.model.started(agent, count)
    return True


VERBS: dict[str, Callable[..., Awaitable[Any]]] = {
    "start": start,
    "asked": asked,
    "let_go": let_go,
    "noticed": noticed,
    "adopt": adopt,
    "calling": calling,
}


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def main(folder: Path) -> None:
    """Open a service, tell its owner, do what is asked until standard input ends."""
    held = [gate(released, call("nothing")), *[lambda request: say(f"I saw {shown(request)}")] * 2]
    lead = [
        say("so far") + dispatch("Stuck") + dispatch("Left"),
        lambda request: call("get_result", execution_id=dispatched(request)[0], wait_seconds=50),
    ]
    pair = [dispatch("Left"), say("waiting"), say("done")]
    scripts = {"Lead": lead, "Pair": pair, "Left": [say("left")], "Held": held, "*": lambda _: hang()}
    async with bench(folder, CONFIG, scripts) as service:
        _say(service.dispatcher.services.database.owner)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            verb, arguments = json.loads(line)
            _say(await VERBS[verb](service, **arguments))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]))
