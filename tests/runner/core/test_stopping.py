"""Stopping the service, and deleting what it left: quick, and no row pretends to be alive."""

from pathlib import Path

import anyio
import pytest

from db.errors import StillOpen, UnknownExecution
from db.store.owners import is_alive
from runner.core.views import INTERRUPTED
from runner.service.order import Order
from tests.support.local_tools import LocalTools
from tests.support.models import call, gate, hang, say
from tests.support.reading import dispatch
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right], max_concurrent_agents: 2}
  Left: {description: looks left}
  Right: {description: looks right}
"""
TREES = 10


@requirement("S2-CA-11")
async def test_stopping_the_service_is_quick_and_leaves_no_row_that_pretends_to_run(tmp_path: Path) -> None:
    inside = 0

    async def dig(_: object) -> str:
        nonlocal inside
        inside += 1
        await anyio.sleep_forever()
        return ""

    everyone = dispatch("Left") + dispatch("Right") + dispatch("Right", "waits for a slot")
    scripts = {"Lead": [everyone, hang()], "Left": [hang()], "Right": [call("dig")]}
    before = set(anyio.get_running_tasks())
    kept: list[Bench] = []
    async with bench(tmp_path, CONFIG, scripts, LocalTools({"dig": dig}).for_agents("Right")) as service:
        kept.append(service)
        for _ in range(TREES):
            await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(20):
            await service.model.started("Lead", 2 * TREES)
            await service.model.started("Left", TREES)
            while inside < TREES:
                await anyio.lowlevel.checkpoint()
        alive = service.sql("select distinct owner from executions")
        assert [is_alive(tmp_path / "outrider.db", row["owner"]) for row in alive] == [True]
        stopped = anyio.current_time()

    assert anyio.current_time() - stopped < 2
    assert set(anyio.get_running_tasks()) == before
    assert len(service.model.cancelled) == 2 * TREES
    rows = service.sql("select id, owner, status, result, finished_at from executions")
    assert len(rows) == 4 * TREES
    assert {(row["status"], row["result"], row["finished_at"]) for row in rows} == {
        ("running", None, None),
        ("pending", None, None),
    }  # nothing claims an end: whoever goes on finds them as they were …
    assert not any(is_alive(tmp_path / "outrider.db", row["owner"]) for row in rows)
    async with bench(tmp_path, CONFIG, {}) as later:  # … and everybody who asks is told that nobody is at work
        for row in rows:
            with anyio.fail_after(5):
                told = await later.dispatcher.wait(row["id"])
            assert (told.ended, told.activity) == (False, INTERRUPTED)


@requirement("S2-DB-12")
async def test_a_tree_is_deleted_once_it_has_ended(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [gate(opened, say("left"))]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        await service.model.started("Left")
        with pytest.raises(StillOpen, match="has not ended"):
            await service.dispatcher.delete(started.id)
        opened.set()
        with anyio.fail_after(5):
            await service.dispatcher.wait(started.id)
        child = service.sql("select id from executions where agent = 'Left'")[0]["id"]
        with pytest.raises(UnknownExecution):
            await service.dispatcher.delete(child)

        await service.dispatcher.delete(started.id)

        for table in ("executions", "events", "messages", "model_calls", "tool_calls", "deliveries"):
            assert service.sql(f"select * from {table}") == []
        with pytest.raises(UnknownExecution):
            await service.dispatcher.delete(started.id)
