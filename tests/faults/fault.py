"""A fault and the gauge it is survived under.

Owns: the shape of a declared fault, and what is measured while it happens. Must not know: models or upstreams.
Invariant: a fault that is not contained fails its test; a figure is only ever written beside a passed bound.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

import anyio
import psutil

from tests.support.figures import FIGURES, tell

LAG_SECONDS = 0.1
"""How long the event loop may stand still for everybody else."""
GROWTH_BYTES = 64 * 1024 * 1024
"""How much memory a fault may cost."""
GRACE_SECONDS = 1.0
"""How much later than its timeout a fault may end."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong, and the documented state it ends in."""

    name: str
    happens: str
    """What the peer does, in words."""
    ends: str
    """What the user, the model and the rows see, in words."""


@dataclass(slots=True)
class Figure:
    """What one survived fault cost."""

    seconds: float = 0.0
    lag_seconds: float = 0.0
    growth_bytes: int = 0


@asynccontextmanager
async def contained(fault: Fault, way: str, *, within: float) -> AsyncIterator[Figure]:
    """Fail unless the body ends within its timeout and the grace, without hurting the loop or the memory.

    `way` tells runs of one fault apart, such as the transport.
    """
    process, figure = psutil.Process(), Figure()
    before, began = process.memory_info().rss, time.monotonic()
    async with anyio.create_task_group() as group:
        group.start_soon(_watch, figure, process, before, name="watch")
        yield figure
        figure.seconds = time.monotonic() - began
        group.cancel_scope.cancel()
    assert figure.seconds < within + GRACE_SECONDS, f"{fault.name} took {figure.seconds:.2f} s"
    assert figure.lag_seconds < LAG_SECONDS, f"{fault.name} held the loop for {figure.lag_seconds * 1000:.0f} ms"
    assert figure.growth_bytes < GROWTH_BYTES, f"{fault.name} cost {figure.growth_bytes >> 20} MB"
    tell(fault=fault.name, way=way, **asdict(figure))


async def _watch(figure: Figure, process: psutil.Process, before: int) -> None:
    """Note how much later than asked a short rest ends, which is what a sibling would have felt, and the most memory.

    On a busy machine a rest ends late for other reasons, too. A figure for the page is what was felt, so `make faults`
    wants a quiet one; anywhere else no more counts than the loop has computed meanwhile.
    """
    rest, quiet = 0.005, FIGURES in os.environ
    while True:
        asked, computed = time.monotonic() + rest, time.thread_time()
        with anyio.move_on_after(rest):
            await anyio.sleep_forever()
        late = time.monotonic() - asked
        figure.lag_seconds = max(figure.lag_seconds, late if quiet else min(late, time.thread_time() - computed))
        figure.growth_bytes = max(figure.growth_bytes, process.memory_info().rss - before)
