"""Hostile text in an iteration changes nothing but the text shown: in what is asked, planned, done, failed and answered."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path

import anyio

from runner.llm.protocol import Request
from runner.messages import clean
from runner.snapshot import Snapshot
from tests.runner.prompt.hostile import hostile, tags
from tests.runner.strategies.iterate.iterated import config, done, finished, first, task, undone
from tests.support.models import Turn, say
from tests.support.service import bench

TEXTS = ["plain words", *hostile()]
ITERATE = """
    planner: {instructions: "Plan for {{ objective }} by {{ executionState | yaml.stringify }}"},
    worker: {instructions: "Do {{ task }} of {{ executionState }}"}"""


def said(number: int) -> str:
    """A text as a model says it, which says which of all it is."""
    return f"#{number} {clean(TEXTS[number])}"


async def test_no_text_changes_the_blocks_of_a_prompt_or_what_is_done(tmp_path: Path) -> None:
    seen: dict[tuple[int, str], list[Request]] = defaultdict(list)

    def script(request: Request) -> Turn:
        found = re.search(r"#(\d+) ", first(request))
        assert found is not None
        number = int(found[1])
        asked = seen[number, request.agent]
        asked.append(request)
        match request.agent, len(asked):
            case "TaskPlanner", 3:
                return finished(reasoning=said(number))
            case "TaskPlanner", _:
                return task(said(number), reasoning=said(number))
            case "TaskWorker", 1:
                return undone(said(number), said(number))
            case "TaskWorker", _:
                return done({"found": said(number)})
            case _:
                return say(said(number))

    ends: dict[int, Snapshot] = {}
    async with bench(tmp_path, config(ITERATE), {"*": script}) as service:

        async def one(number: int) -> None:
            ends[number] = await service.run("Reporter", f"#{number} {TEXTS[number]}")

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for number in range(len(TEXTS)):
                    group.start_soon(one, number, name=f"text {number}")
        for number, text in enumerate(TEXTS):
            for agent in ("TaskPlanner", "TaskWorker", "Completer"):
                shapes = [(tags(each.system), tags(first(each))) for each in seen[number, agent]]
                assert shapes == [(tags(each.system), tags(first(each))) for each in seen[0, agent]], (agent, text[:80])
            end = ends[number]
            assert end.result is not None
            assert (end.result.outcome, end.result.text.strip()) == ("completed", said(number).strip())
            rows = service.sql(
                "select task, result from executions where parent_execution_id = ? and role = 'worker'", end.id
            )
            assert [row["task"] for row in rows] == [said(number).strip()] * 2
            assert json.loads(rows[1]["result"])["output"]["result"] == {"found": said(number)}
