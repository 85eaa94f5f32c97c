"""How executions end when several things happen at once: a wish from elsewhere, a service that stops, a mute store."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from db.rows.endings import CancelWish
from db.store.lock import FileLock
from runner.core.verdict import Cause
from runner.llm.protocol import Request
from runner.record.facts import CancelWished
from runner.service.order import Order
from tests.support.models import Turn, call, gate, hang, say
from tests.support.reading import dispatch, results, text_of
from tests.support.requirement import requirement
from tests.support.service import Bench, bench


@requirement("S2-LE-4", "S2-CH-11")
async def test_a_chain_that_another_process_cancels_is_cancelled_and_never_failed(tmp_path: Path) -> None:
    config = "agents: {One: {}}\nagent_chains: {walk: {stages: [{name: one, agents: [One]}, {name: two, agents: [One]}]}}"
    opened = anyio.Event()
    async with bench(tmp_path, config, {"One": [gate(opened, say("one"))]}) as service:
        started = await service.dispatcher.start(Order("walk"))
        await service.model.started("One")
        # The wish alone, as another process writes it: the scopes of this one are not cancelled yet.
        await service.dispatcher.services.recorder.record(CancelWished(CancelWish(started.id, "somebody", "enough")))
        opened.set()
        with anyio.fail_after(5):
            ended = await service.dispatcher.wait(started.id)
        assert ended.status == "cancelled"
        assert {status for each in service.statuses().values() for status in each} == {"cancelled"}
        assert service.sql("select type from error_records") == []


@requirement("S2-LE-7", "S2-LE-11", "S2-CN-7")
async def test_a_report_made_with_finish_is_kept_when_a_cancel_wins(tmp_path: Path) -> None:
    wished = anyio.Event()

    async def report(_: Request) -> Turn:
        await wished.wait()
        return call("finish", status="completed", summary="the cause is X", output={"cause": "X"})

    async with bench(tmp_path, "agents: {Solo: {}}", {"Solo": [report]}) as service:
        started = await service.dispatcher.start(Order("Solo"))
        await service.model.started("Solo")
        await service.dispatcher.services.recorder.record(CancelWished(CancelWish(started.id, "somebody", "enough")))
        wished.set()
        with anyio.fail_after(5):
            ended = await service.dispatcher.wait(started.id)
        assert ended.status == "cancelled"
        (row,) = service.sql("select outcome, result from executions")
        assert row["outcome"] == "partial"
        assert '\\"cause\\": \\"X\\"' in row["result"]


@requirement("S2-GR-9")
async def test_a_depth_that_is_allowed_above_binds_below(tmp_path: Path) -> None:
    config = """
    agents:
      Root: {sub_agents: [A], limits: {max_depth: 1}}
      A: {description: a, sub_agents: [B], limits: {max_depth: 9}}
      B: {description: b}
    """
    scripts = {"Root": [dispatch("A"), say("waiting"), say("done")], "A": [dispatch("B"), say("alone, then")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Root")
        assert "B" not in service.statuses()
        (refused,) = results(service.model.of("A")[-1])
        assert "1 deep at most" in text_of(refused)


@requirement("S2-DB-11")
async def test_a_cancel_during_the_last_write_does_not_stop_it(tmp_path: Path) -> None:
    config = "agents: {Lead: {sub_agents: [Scout]}, Scout: {description: scouts}}"
    async with bench(tmp_path, config, {"Lead": [dispatch("Scout"), hang()], "Scout": [hang()]}) as service:
        started = await service.dispatcher.start(Order("Lead"))
        scout = service.dispatcher.tree.get((await service.model.started("Scout")).execution_id)
        lead = service.dispatcher.tree.get(started.id)
        await service.model.started("Lead", 2)
        assert lead is not None
        assert scout is not None
        lock = FileLock(service.database.with_name(service.database.name + "-lock"))
        lock.acquire(5)
        try:
            scout.cancel(Cause("user", "somebody", "enough"))
            await service.model.saw_cancelled("Scout")  # it is about to write its end, which the lock holds up …
            lead.cancel(Cause("user", "somebody", "enough"))  # … when everything around it is cancelled, too
            await service.model.saw_cancelled("Lead")
        finally:
            lock.release()
            lock.close()
        with anyio.fail_after(5):
            await scout.done.wait()
            await lead.done.wait()
        assert [scout.status, lead.status] == ["cancelled", "cancelled"]
        assert service.statuses() == {"Lead": ["cancelled"], "Scout": ["cancelled"]}


@requirement("S2-DB-11")
async def test_the_last_write_is_waited_for_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.core.execution.LAST_WRITE_SECONDS", 0.3)
    async with bench(tmp_path, "agents: {Solo: {}}", {"Solo": [hang()]}) as service:
        started = await service.dispatcher.start(Order("Solo"))
        await service.model.started("Solo")
        live = service.dispatcher.tree.get(started.id)
        assert live is not None
        lock = FileLock(service.database.with_name(service.database.name + "-lock"))
        lock.acquire(5)
        try:
            live.scope.cancel()
            with anyio.fail_after(5):
                await live.done.wait()
        finally:
            lock.release()
            lock.close()


@requirement("S2-LE-13")
async def test_a_service_that_is_stopped_leaves_its_rows_to_the_process_that_resumes(tmp_path: Path) -> None:
    config = "agents: {Lead: {sub_agents: [Scout]}, Scout: {description: scouts}}"
    services: list[Bench] = []
    with anyio.CancelScope() as whole:
        async with bench(tmp_path, config, {"Lead": [dispatch("Scout"), hang()], "Scout": [hang()]}) as service:
            await service.dispatcher.start(Order("Lead"))
            services.append(service)
            await service.model.started("Scout")
            whole.cancel()
            await anyio.sleep_forever()
    assert services[0].statuses() == {"Lead": ["running"], "Scout": ["running"]}
