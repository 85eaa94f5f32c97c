"""Cancel, complete and spawn in every order: one end each, nothing alive below a cancelled one, results told once.

`OUTRIDER_INTERLEAVINGS` says how many are tried; a failure names the seed that repeats its batch.
"""

import os
import random
import tempfile
from pathlib import Path

import anyio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.properties.verdicts import violations
from tests.properties.world import CONFIG, World, interleave, plant
from tests.support.local_tools import LocalTools
from tests.support.requirement import requirement
from tests.support.service import bench

INTERLEAVINGS = int(os.environ.get("OUTRIDER_INTERLEAVINGS", "500"))
BATCH = 100
"""Interleavings that share a service, and run at the same time."""


@requirement("S2-RN-11", "S2-CN-7", "S2-CA-7", "S2-CA-8", "S2-CT-9", "S2-LE-7", "S2-OB-1", "S2-OB-3")
@settings(
    max_examples=max(1, INTERLEAVINGS // BATCH),
    deadline=None,
    database=None,
    phases=[Phase.generate],  # a smaller seed is no smaller tree
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
async def test_every_interleaving_ends_each_execution_once_and_tells_each_result_once(seed: int) -> None:
    dice, world = random.Random(seed), World()
    with tempfile.TemporaryDirectory() as folder:
        tools = LocalTools({"poke": world.poke}).for_agents("Top", "Middle", "Leaf")
        async with bench(Path(folder), CONFIG, {"*": world.play}, tools) as service:
            world.bench = service
            with anyio.fail_after(50):
                async with anyio.create_task_group() as group:
                    for number in range(min(BATCH, INTERLEAVINGS)):
                        tree = plant(dice, 3)
                        group.start_soon(interleave, world, tree, f"tree {number}", random.Random(dice.random()))

            assert violations(service) == []
            assert world.too_late == []
            assert service.model.running == 0
            assert list(service.dispatcher.tree) == []
