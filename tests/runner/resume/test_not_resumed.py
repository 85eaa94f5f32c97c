"""What a process left and is not to go on ends instead, with a reason, and leaves nothing open."""

from pathlib import Path

import anyio
import pytest

from db.rows.endings import CancelWish
from runner.record.facts import CancelWished
from runner.resume.readiness import Lack, Unready
from runner.service.order import Order
from runner.snapshot import Snapshot
from tests.runner.resume.resuming import CONFIG, after_a_stop, tree, with_all
from tests.support.local_tools import LocalTools
from tests.support.models import Script, call, hang, say
from tests.support.reading import delivered, dispatch
from tests.support.requirement import requirement
from tests.support.service import bench


@requirement("S2-LE-12")
async def test_what_is_not_to_be_resumed_has_failed_and_its_parent_goes_on(tmp_path: Path) -> None:
    async with bench(
        tmp_path,
        CONFIG,
        {
            "Lead": [dispatch("Fragile"), say("w")],
            "Fragile": [say("so far") + call("list_agents"), hang()],
            "Leaf": lambda _: hang(),
        },
    ) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        brittle = await service.dispatcher.start(Order("brittle", "look"))
        with anyio.fail_after(10):
            await service.model.started("Lead", 2)
            await service.model.started("Fragile", 2)

    async with after_a_stop(tmp_path, {"Lead": with_all(1, lambda request: say(delivered(request)[0].status))}) as service:
        end = await service.ended(started.id)
        line = await service.ended(brittle.id)

        assert end.result is not None
        assert end.result.text == "failed"
        failed = service.sql("select error_type, error, result from executions where agent = 'Fragile'")[0]
        assert failed["error_type"] == "interrupted"
        assert "forbids resuming it" in failed["error"]
        assert "so far" in failed["result"]
        assert (line.status, line.error) == ("failed", failed["error"])
        assert service.sql("select id from executions where finished_at is null") == []
        assert service.sql("select id from tool_calls where finished_at is null") == []


async def left_at_work(folder: Path) -> Snapshot:
    """An agent that another one waits for, and whose model had not answered when the service stopped."""
    async with bench(folder, CONFIG, {"Lead": [dispatch("Leaf"), say("w")], "Leaf": lambda _: hang()}) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")
            await service.model.started("Lead", 2)
    return started


async def test_a_cancel_requested_while_no_process_ran_it_is_granted(tmp_path: Path) -> None:
    started = await left_at_work(tmp_path)

    async with bench(tmp_path, CONFIG, {}) as service:
        await service.dispatcher.services.recorder.record(CancelWished(CancelWish(started.id, "ada", "enough")))
        await service.dispatcher.adopt()
        end = await service.ended(started.id)

        assert end.status == "cancelled"
        assert [status for _, status, _ in tree(service)] == ["cancelled", "cancelled"]
        assert service.model.requests == []


async def test_a_wish_to_cancel_that_comes_between_adoption_and_going_on_is_granted(tmp_path: Path) -> None:
    started = await left_at_work(tmp_path)

    async with bench(tmp_path, CONFIG, {"Lead": [say("too late")], "Leaf": [say("too late")]}) as service:
        await service.dispatcher.adopt()
        service.dispatcher.services.recorder.record_nowait(CancelWished(CancelWish(started.id, "ada", "enough")))
        end = await service.ended(started.id)

        assert end.status == "cancelled"
        assert [status for _, status, _ in tree(service)] == ["cancelled", "cancelled"]
        assert service.model.requests == []


async def test_what_is_asked_to_stop_and_left_by_its_process_does_not_go_on_and_none_of_its_calls_stays_open(
    tmp_path: Path,
) -> None:
    begun, never = anyio.Event(), anyio.Event()

    async def act(_: object) -> str:
        begun.set()
        await never.wait()
        return "never"

    tools = LocalTools({"act": act}, effect="at_most_once")
    scripts: dict[str, Script] = {"Lead": [dispatch("Middle"), say("w")], "Middle": [dispatch("Leaf"), say("w")]}
    async with bench(tmp_path, CONFIG, {**scripts, "Leaf": [call("act")]}, tools.for_agents("Leaf")) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        with anyio.fail_after(10):
            await begun.wait()

    async with bench(tmp_path, CONFIG, {}) as service:
        await service.dispatcher.services.recorder.record(CancelWished(CancelWish(started.id, "ada", "enough")))
        await service.dispatcher.adopt()
        await service.ended(started.id)

        assert [status for _, status, _ in tree(service)] == ["cancelled"] * 3
        told = service.sql("select payload ->> 'status' as status, payload ->> 'resumed' as resumed from events")
        assert [row for row in told if row["resumed"]] == []
        [cut] = service.sql("select status, result from tool_calls where tool = 'local.act'")
        assert cut["status"] == "unknown"
        assert "whether it took effect is unknown" in cut["result"]
        assert service.sql("select id from tool_calls where finished_at is null") == []


async def test_an_execution_whose_configuration_cannot_be_restored_waits_for_a_process_that_can(tmp_path: Path) -> None:
    then = CONFIG + "models: {paid: {model: m, base_url: '${ELSEWHERE}'}}\n"
    async with bench(tmp_path, then, {"Leaf": lambda _: hang()}, environ={"ELSEWHERE": "http://there"}) as service:
        started = await service.dispatcher.start(Order("Leaf", "look"))
        with anyio.fail_after(10):
            await service.model.started("Leaf")
        before = service.sql("select * from executions"), service.sql("select * from events")

    async with bench(tmp_path, CONFIG, {}) as service:
        assert await service.dispatcher.adopt() == 0
        with pytest.raises(Unready) as caught:
            await service.dispatcher.resume(started.id)
        assert (service.sql("select * from executions"), service.sql("select * from events")) == before

    assert caught.value.lacks == (Lack("variable", "ELSEWHERE", "set `ELSEWHERE`"),)
    async with bench(tmp_path, then, {"Leaf": [say("there")]}, environ={"ELSEWHERE": "http://there"}) as service:
        assert await service.dispatcher.adopt() == 1
        assert (await service.ended(started.id)).status == "completed"
