"""Calls that a person must allow: they wait, at nobody's cost, and run once, with the arguments that were shown."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from runner.approvals import Question, Word
from runner.dispatcher import Order
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, say
from tests.support.reading import dispatch, results, text_of
from tests.support.service import Bench, bench

CONFIG = """
defaults: {limits: {timeout: 60s}}
agents:
  Lead: {description: leads, sub_agents: [Worker]}
  Worker: {description: works}
"""
YES, NO = Word(approved=True, by="Ada"), Word(approved=False, by="Ada", reason="not on a Friday")


async def delete(arguments: Mapping[str, Any]) -> str:
    return f"deleted {arguments['what']}"


DELETE = call("delete", what="everything")


@asynccontextmanager
async def gated(folder: Path, worker: list[Turn], config: str = CONFIG) -> AsyncIterator[tuple[Bench, LocalTools]]:
    """A service whose agents may delete, if somebody allows it."""
    tools = LocalTools({"delete": delete}, gate="ask")
    scripts = {"Lead": [dispatch("Worker"), say("I wait"), say("done")], "Worker": worker}
    async with bench(folder, config, scripts, tools.for_agents("Worker")) as opened:
        with anyio.fail_after(20):
            yield opened, tools


async def asked(opened: Bench, number: int = 1) -> list[Question]:
    """What is asked, once it is so much."""
    approvals = opened.dispatcher.services.approvals
    while True:
        news, found = approvals.news, await approvals.open()
        if len(found) >= number:
            return list(found)
        await news.wait()


async def test_a_call_that_must_be_allowed_waits_for_a_person_and_then_runs_once(tmp_path: Path) -> None:
    async with gated(tmp_path, [DELETE, say("it is gone")]) as (opened, tools):
        started = await opened.dispatcher.start(Order("Worker", "clean up"))
        [question] = await asked(opened)
        waiting = opened.sql("select status, waiting_for from executions")
        held = opened.sql("select status from tool_calls")
        ran_before = list(tools.calls)
        decided = await opened.dispatcher.services.approvals.decide(question, YES)
        again = await opened.dispatcher.services.approvals.decide(question, YES)
        done = await opened.dispatcher.wait(started.id)

    assert (question.tool, question.arguments, question.agent) == ("local.delete", {"what": "everything"}, "Worker")
    assert waiting == [{"status": "running", "waiting_for": "approval"}]
    assert held == [{"status": "waiting"}]
    assert ran_before == []
    assert (decided, again) == (True, False)
    assert done.result is not None
    assert done.result.text == "it is gone"
    assert len(tools.calls) == 1
    assert text_of(results(opened.model.of("Worker")[1])[0]) == "deleted everything"
    [row] = opened.sql("select * from approvals")
    assert (row["decision"], row["decided_by"], row["kind"]) == ("approved", "Ada", "gate")
    assert row["used_at"] is not None
    assert opened.sql("select waiting_for from executions") == [{"waiting_for": None}]
