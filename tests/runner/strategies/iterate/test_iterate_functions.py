"""Functions as components of an iteration: they are told by name what others read in a prompt."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.runner.strategies.iterate.iterated import config, done, finished, first, task
from tests.support.models import say, shared
from tests.support.requirement import requirement
from tests.support.service import bench

FUNCTIONS = """
from runner.result import Outcome, Result


def plan(objective: str, skills: list, executionState: dict, topic: str = ""):
    done = [each["task"] for each in executionState["tasks"]]
    return {"nextTask": f"{objective} {topic} {len(done) + 1}"} if len(done) < 2 else {"finished": True}


def complete(objective: str, executionState: dict):
    return {"objective": objective, "results": [each["result"] for each in executionState["tasks"]]}


def refuse(task: str):
    return {"success": False, "error": {"message": f"not {task}"}}


def numbers(task: str):
    return [1, {"two": None}]


def halve(task: str):
    return Result(Outcome.PARTIAL, "only half", "half")


def burst(task: str):
    raise ValueError("bang")
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of this test alone."""
    name = f"parts_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@requirement("S3-PI-1", "S3-CI-1", "S3-FL-5")
async def test_planner_and_completer_may_be_functions(tmp_path: Path, functions: str) -> None:
    agents = "".join(f"  {name}: {{function: '{functions}:{name}'}}\n" for name in ("plan", "complete"))
    text = config("objective: 'Find {{ topic }}', planner: plan, completer: complete", "input_schema: {properties: "
                  "{topic: {type: string}}},", agents)  # fmt: skip
    async with bench(tmp_path, text, {"TaskWorker": shared(done("a"), done(["b"]))}) as service:
        end = await service.run("Reporter", "", input={"topic": "disks", "secret": "BURIED"})

        assert end.result is not None
        assert end.result.output == {"objective": "Find disks", "results": ["a", ["b"]]}
        tasks = service.sql("select task from executions where role = 'worker' order by created_at, position")
        assert [row["task"] for row in tasks] == ["Find disks disks 1", "Find disks disks 2"]
        given = service.sql("select input from executions where role in ('planner', 'completer')")
        assert not any("BURIED" in row["input"] for row in given)


@requirement("S3-WO-1", "S3-WO-2")
@pytest.mark.parametrize(
    ("worker", "said"),
    [
        ("refuse", "  status: failed\n  error:\n    message: not one\n"),
        ("numbers", "  status: completed\n  result:\n  - 1\n  - two: null\n"),
        ("halve", "  status: failed\n  result: half\n  error:\n    message: it was only done in part (partial)\n"),
        ("burst", "  status: failed\n  error:\n    message: "),
    ],
)
async def test_what_a_function_that_works_returns_becomes_a_record(
    tmp_path: Path, functions: str, worker: str, said: str
) -> None:
    text = config("objective: x, worker: F", "", f"  F: {{function: '{functions}:{worker}'}}\n")
    scripts = {"TaskPlanner": shared(task("one"), finished()), "Completer": [say("all")]}
    async with bench(tmp_path, text, scripts) as service:
        await service.run("Reporter", "")
        assert f"- task: one\n{said}" in first(service.model.of("Completer")[0])
