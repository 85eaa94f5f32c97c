"""Random trees with random budgets: they always end, and go over a limit by no more than estimates in flight were wrong.

`OUTRIDER_TREES` says how many are tried; a failure names the seed that repeats its batch.
"""

import os
import random
import tempfile
from dataclasses import asdict
from pathlib import Path

import anyio
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.properties.spending_verdicts import Figures, judge
from tests.properties.spending_world import CONFIG, World, plant, work
from tests.support.figures import tell
from tests.support.local_tools import LocalTools
from tests.support.requirement import requirement
from tests.support.service import bench

TREES = int(os.environ.get("OUTRIDER_TREES", "60"))
BATCH = 20
"""Trees that share a service, and run at the same time."""

TOO_SHORT, LONG_ENOUGH = (2.0, 2.5, 3.0, 4.0), (3.0, 3.5, 4.5)
"""Bytes of a token, as providers may count; three are assumed."""


@requirement("S2-GR-12")
@settings(
    max_examples=max(1, TREES // BATCH),
    deadline=None,
    database=None,
    phases=[Phase.generate],  # a smaller seed is no smaller tree
    suppress_health_check=[HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32), exact=st.booleans())
async def test_no_tree_goes_over_a_limit_by_more_than_its_estimates_were_wrong_and_none_stands_still(
    seed: int, exact: bool
) -> None:
    figures = await spend(seed, exact=exact)
    note(str(figures))
    tell(seed=seed, exact=exact, **asdict(figures))
    assert figures.violations == []


async def spend(seed: int, *, exact: bool) -> Figures:
    """One batch of trees: what was measured."""
    dice = random.Random(seed)
    world = World(random.Random(dice.random()))
    tools = LocalTools({"work": work}).for_agents("Top", "Counted", "Middle", "Capped", "Leaf", "Frugal")
    with tempfile.TemporaryDirectory() as folder:
        async with bench(Path(folder), CONFIG, {"*": world.play}, tools) as service:
            world.bench = service
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for number in range(min(BATCH, TREES)):
                        tree = plant(dice, dice.choice(["Top", "Top", "Counted"]), 3)
                        tree.budget = dice.choice([None, dice.uniform(0.01, 0.6), dice.uniform(0.01, 0.6)])
                        ratio = dice.choice(LONG_ENOUGH if exact else TOO_SHORT)
                        group.start_soon(world.grow, tree, f"tree {number}", ratio)
            return judge(service, world, min(BATCH, TREES), exact=exact)
