"""A process full of agents whose models never answer, there to be killed: `python -m … FOLDER TREES SINGLES`.

Owns: what it leaves behind, written by a real service. Must not know: who goes on with it.
Invariant: it says so once every one of its agents waits, and then nothing changes any more until it is killed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio

from registry import load
from runner.llm.protocol import Request
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order
from server.app import Blueprint, open_service
from tests.faults.crash.scene import rows_of
from tests.support.models import Script, ScriptedModel, Turn, call, hang, say
from tests.support.service import OneModel

CAPTAINS, LEAVES = 4, 5
TREE = 1 + CAPTAINS + CAPTAINS * LEAVES
"""Executions of a tree of three levels."""
CONFIG = """\
defaults: {model: any, limits: {LIMITS}}
models: {any: {model: any}}
agents:
  Lead: {description: sends captains, sub_agents: [Captain]}
  Captain: {description: sends leaves, sub_agents: [Leaf]}
  Leaf: {description: waits for its model}
"""
DATABASE = "outrider.db"
WAITING = "select count(*) as n from executions where waiting_for = 'children'"
PATIENCE = 300.0
AT_ONCE = 100
"""Orders under way at the same time."""


def configure(folder: Path, **limits: int) -> None:
    """Write the configuration, with these limits of the service."""
    told = ", ".join(f"{name}: {value}" for name, value in limits.items())
    (folder / "config.yaml").write_text(CONFIG.replace("LIMITS", told), encoding="utf-8")


def make_wreck(folder: Path, trees: int, singles: int) -> int:
    """Let that many trees and single agents be at work in a process, and kill it; how many executions it leaves."""
    configure(folder, max_concurrent_roots=trees + singles)
    command = [sys.executable, "-m", __name__, str(folder), str(trees), str(singles)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"all wait\n"
        finally:
            process.kill()
    return trees * TREE + singles


async def _order(dispatcher: Dispatcher, agents: list[str]) -> None:
    orders = iter([Order(agent, f"{agent} {number}") for number, agent in enumerate(agents)])

    async def some() -> None:
        for order in orders:
            await dispatcher.start(order)

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(some)


def _send(agent: str, count: int) -> Turn:
    turn = Turn()
    for number in range(count):
        turn += call("dispatch_agent", name=agent, task=f"{agent} {number}")
    return turn


async def main(folder: Path, trees: int, singles: int) -> None:
    """Work, and say when everybody waits."""
    left, all_wait = trees * CAPTAINS * LEAVES + singles, anyio.Event()

    def wait(_: Request) -> Turn:
        nonlocal left
        left -= 1
        if not left:
            all_wait.set()
        return hang()

    scripts: dict[str, Script] = {
        "Lead": [_send("Captain", CAPTAINS), say("I wait")],
        "Captain": [_send("Leaf", LEAVES), say("I wait")],
        "Leaf": wait,
    }
    blueprint = Blueprint(load(folder / "config.yaml", {}), folder / DATABASE, models=OneModel(ScriptedModel(scripts)))
    with anyio.fail_after(PATIENCE):
        async with open_service(blueprint) as dispatcher:
            await _order(dispatcher, ["Lead"] * trees + ["Leaf"] * singles)
            await all_wait.wait()
            while rows_of(folder / DATABASE, WAITING)[0]["n"] < trees * (1 + CAPTAINS):
                await dispatcher.services.database.writer.flush()
            sys.stdout.write("all wait\n")
            sys.stdout.flush()
            await anyio.sleep_forever()


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
