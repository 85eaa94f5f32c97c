"""What plans are made of: agents that are nothing but entries of a file, and modules that stand alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.runner.strategies.plan.planned import config, plan, step, steps
from tests.support.models import say
from tests.support.requirement import requirement
from tests.support.service import bench
from tests.support.sources import ROOT

PURE = ("runner.strategies.plan.schedule", "runner.strategies.plan.prompts")
PARTS = ("registry", "runner.core.execution", "runner.strategies.plan", "runner.strategies.plan.planner", *PURE)
"""Types, registry, runner, orchestrator, planner and prompts."""

ALONE = """
import importlib, os, sys
import anyio, pydantic, sqlmodel
for name in sys.argv[1:]:
    if os.fork() == 0:
        importlib.import_module(name)
        print(name, "runner.strategies.context" in sys.modules, flush=True)
        os._exit(0)
    os.wait()
"""


@requirement("S0-FS-1")
def test_each_part_of_planning_can_be_imported_alone_and_the_pure_ones_know_no_execution() -> None:
    ran = subprocess.run([sys.executable, "-c", ALONE, *PARTS], cwd=ROOT, capture_output=True, check=True, encoding="utf-8")
    assert ran.stderr == ""
    known = dict(line.split() for line in ran.stdout.splitlines())
    assert known.keys() == set(PARTS)
    assert {name for name in PARTS if known[name] == "False"} >= set(PURE)


@requirement("S0-NFR-6", "S0-PL-7")
async def test_a_new_agent_is_one_entry_of_the_file(tmp_path: Path) -> None:
    entry = "  Gardener: {description: Waters plants., capabilities: [water, prune]}\n"
    more = config().replace("[A, B, C]", "[A, B, C, Gardener]") + entry
    scripts = {"Planner": [plan(step("s", "gardener", "water"))], "Gardener": [say("watered")], "Composer": [say("done")]}
    async with bench(tmp_path, more, scripts) as service:
        ended = await service.run("Assistant")

        assert ended.result is not None
        assert ended.result.outcome == "completed"
        listed = service.model.of("Planner")[0].system
        assert listed.count('<agent name="Gardener">Waters plants.\nCapabilities: water, prune</agent>') == 1
        assert steps(service) == {"s": "completed"}
