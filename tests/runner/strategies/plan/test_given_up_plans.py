"""Plans nobody goes on with: their process is gone, and they were to stop. Their rows say that they failed, once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import anyio

from db.store.engine import sqlite_library
from runner.llm.protocol import Request
from runner.service.order import Order
from tests.runner.strategies.plan.planned import A, B, config, plan, plan_events, steps
from tests.support.models import Turn, hang
from tests.support.service import Bench, bench

SCRIPTS = {"Planner": [plan(A, B)], "A": [hang()]}
WISHED = "update executions set cancel_requested_at = created_at, cancelled_by = 'Ada', cancel_reason = 'not today'"
"""What a process leaves that was killed while it was being asked to stop."""


async def begun(folder: Path) -> tuple[str, Path]:
    """A plan whose process is gone while its first step is at work; its id and the database."""
    async with bench(folder, config(), SCRIPTS) as service:
        started = await service.dispatcher.start(Order("Assistant", "do a and b"))
        await service.until(lambda: steps(service).get("step_1") == "running")
    return started.id, service.database


def failed_once(service: Bench) -> bool:
    versions, events = service.sql("select status from plans"), plan_events(service)
    return versions == [{"status": "failed"}] and events == ["plan.planning", "plan.executing", "plan.failed"]


async def test_a_plan_that_was_killed_while_it_was_cancelled_has_failed(tmp_path: Path) -> None:
    identifier, database = await begun(tmp_path)
    with closing(sqlite_library().connect(database)) as connection, connection:
        connection.execute(WISHED)

    async with bench(tmp_path, config(), SCRIPTS) as service:
        await service.dispatcher.adopt()
        assert (await service.ended(identifier)).status == "cancelled"
        assert failed_once(service)


async def test_a_plan_that_is_cancelled_after_its_process_has_failed(tmp_path: Path) -> None:
    identifier, _ = await begun(tmp_path)

    async with bench(tmp_path, config(), SCRIPTS) as service:
        await service.dispatcher.cancel(identifier, by="Ada", reason="not today")
        assert (await service.ended(identifier)).status == "cancelled"
        assert failed_once(service)


async def test_a_plan_that_goes_on_and_is_cancelled_then_has_failed_once(tmp_path: Path) -> None:
    identifier, _ = await begun(tmp_path)

    at_work = anyio.Event()

    def working(_: Request) -> Turn:
        at_work.set()
        return hang()

    async with bench(tmp_path, config(), {"A": working}) as service:
        await service.dispatcher.adopt()
        with anyio.fail_after(20):
            await at_work.wait()
        await service.dispatcher.cancel(identifier, by="Ada", reason="not today")
        assert (await service.ended(identifier)).status == "cancelled"
        assert failed_once(service)
