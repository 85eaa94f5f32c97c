"""A database written before modules were moved: its interrupted trees, one for every strategy at least, are gone on with.

`interrupted.db.gz` was written by the code of commit 452c3c7; each of its processes was ended by SIGKILL, while models and
tools hung. `interrupted.json` holds what resuming gave with that same code: the answers, and the figures of each tree.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.resume.cast import TOOL_USERS, scripts, tools
from tests.support.service import Bench, bench

HERE = Path(__file__).parent
EXPECTED: dict[str, dict[str, Any]] = json.loads((HERE / "interrupted.json").read_text(encoding="utf-8"))
TODAY = "agents: {Passerby: {description: knows nothing of those trees}}"
"""The configuration of the process that goes on: each tree brings its own."""

ROOT = "select status, outcome, reason, error_type, result from executions where id = ?"
TREE = """
select agent, role, coalesce(step_id, '-') as step, status, coalesce(outcome, '-') as outcome, attempt
from executions where root_execution_id = ? order by 1, 2, 3, task
"""
CALLS = "select count(*) as made from {} where execution_id in (select id from executions where root_execution_id = ?)"
OPEN = "select agent, role, status from executions where finished_at is null"
UNREAD = """
select deliveries.id from deliveries join executions on executions.id = deliveries.execution_id
where consumed_at is null and outcome = 'completed'
"""


def unpack(folder: Path) -> None:
    """Put the database where the service of a test looks for it."""
    (folder / "outrider.db").write_bytes(gzip.decompress((HERE / "interrupted.db.gz").read_bytes()))


@dataclass(frozen=True)
class Resumed:
    """What is there when all has ended."""

    adopted: int
    trees: dict[str, dict[str, Any]]
    """What came of each."""
    open: list[dict[str, Any]]
    unread: list[dict[str, Any]]


async def resume_all(folder: Path) -> Resumed:
    """Go on with every tree of the database in a folder."""
    async with bench(folder, TODAY, {}, tools().for_agents(*TOOL_USERS)) as service:
        service.model.scripts |= scripts(service.model)
        with anyio.fail_after(45):
            adopted = await service.dispatcher.adopt()
            for each in EXPECTED.values():
                await service.dispatcher.wait(each["root"])
        trees = {name: observed(service, each["root"]) for name, each in EXPECTED.items()}
        return Resumed(adopted, trees, service.sql(OPEN), service.sql(UNREAD))


def observed(service: Bench, root: str) -> dict[str, Any]:
    """What came of one tree."""
    [row] = service.sql(ROOT, root)
    result = json.loads(row.pop("result") or "{}")
    tree = service.sql(TREE, root)
    return {
        "root": root,
        **row,
        "answer": result.get("output") or result.get("summary"),
        "artifacts": result.get("artifacts"),
        "executions": len(tree),
        "model_calls": service.sql(CALLS.format("model_calls"), root)[0]["made"],
        "tool_calls": service.sql(CALLS.format("tool_calls"), root)[0]["made"],
        "tree": [" ".join(str(value) for value in each.values()) for each in tree],
    }


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    """All trees resumed, once for all tests."""
    folder = tmp_path_factory.mktemp("old")
    unpack(folder)
    return anyio.run(resume_all, folder)


def test_every_tree_that_older_code_left_open_is_gone_on_with_and_ends(resumed: Resumed) -> None:
    assert (resumed.adopted, resumed.open, resumed.unread) == (len(EXPECTED), [], [])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_tree_that_older_code_left_open_comes_to_the_same_answer(resumed: Resumed, name: str) -> None:
    assert resumed.trees[name] == EXPECTED[name]
