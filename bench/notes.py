"""Time from `send_message` to the model: until the request that contains the message arrives there.

Owns the two agents that are written to: one that waits for a child, and one that is in the middle of a model call.
Must not know: tables. Invariant: both moments are of one clock; the fake model keeps the one of the arrival.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import cycle, islice

import anyio
import anyio.to_thread

from bench.contestant import DELEGATE
from bench.processes import FakeModelProcess, fake_model
from bench.service import Series, configuration, service, worker
from runner.service.dispatcher import Dispatcher
from runner.service.order import Order

PAUSES = (0.021, 0.034, 0.026, 0.039, 0.030)
"""Seconds between messages: no multiple of a reply's, so that messages meet it at every stage."""
REPLY_MS = 20
PATIENCE = 60.0
LONG = 100_000
"""Turns of an agent that works until it is cancelled."""


async def to_a_waiting_agent(n: int) -> Sequence[Series]:
    """An agent that waits for its child: a message wakes it."""
    agents = {
        "supervisor": {"sub_agents": ["worker"], "max_iterations": n + 10},
        "worker": worker(),
    }
    with fake_model("--hold", "--notes") as model:
        async with service(configuration(model.url, agents)) as dispatcher:
            waiting = await dispatcher.start(Order("supervisor", f"FANOUT n=1 turns=1 {DELEGATE}"))
            await _until(model, "held", 1)
            return await _written_to(dispatcher, model, waiting.id, n, "to an agent that waits for a child")


async def to_a_working_agent(n: int) -> Sequence[Series]:
    """An agent that calls model and tool in turn: it reads a message before its next call of the model."""
    with fake_model("--latency-ms", str(REPLY_MS), "--notes") as model:
        async with service(configuration(model.url, {"worker": worker(max_iterations=LONG)})) as dispatcher:
            working = await dispatcher.start(Order("worker", f"WORK id=0 turns={LONG}"))
            await _until(model, "requests", 2)
            return await _written_to(dispatcher, model, working.id, n, f"to an agent at work, replies of {REPLY_MS} ms")


async def _written_to(
    dispatcher: Dispatcher, model: FakeModelProcess, execution: str, n: int, name: str
) -> Sequence[Series]:
    called: list[float] = []
    returned: list[float] = []
    for number, pause in enumerate(islice(cycle(PAUSES), n)):
        called.append(time.time())
        if not await dispatcher.send_message(execution, f"NOTE {number}", by="bench"):
            raise SystemExit(f"error: the agent ended before message {number}")
        returned.append(time.time())
        await anyio.sleep(pause)
    read = await _until(model, "notes", n)
    await dispatcher.cancel(execution, "bench", "measured")
    await dispatcher.wait(execution)

    arrived = [read[str(number)] for number in range(n)]
    return [
        Series(f"{name}: until read", [each - start for each, start in zip(arrived, called, strict=True)]),
        Series(f"{name}: until stored", [each - start for each, start in zip(returned, called, strict=True)]),
    ]


async def _until(model: FakeModelProcess, name: str, wanted: int) -> dict[str, float]:
    """Wait until one of the model's counts has grown to this number; returns the notes."""
    with anyio.fail_after(PATIENCE):
        while True:
            stats = await anyio.to_thread.run_sync(model.stats)
            count = stats[name] if isinstance(stats[name], int) else len(stats[name])
            if count >= wanted:
                notes: dict[str, float] = stats["notes"]
                return notes
            await anyio.sleep(0.02)
