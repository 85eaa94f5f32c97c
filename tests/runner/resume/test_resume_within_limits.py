"""What a process left open goes on within the limits of today: a few at a time where there are few slots."""

from pathlib import Path

import anyio

from db.rows.endings import CancelWish
from runner.llm.protocol import Request
from runner.record.facts import CancelWished
from runner.service.order import Order
from tests.runner.resume.resuming import CONFIG, after_a_stop, tree, with_all
from tests.support.models import Turn, gate, hang, say
from tests.support.reading import dispatch
from tests.support.service import bench


async def test_children_that_waited_for_a_slot_wait_on_and_run(tmp_path: Path) -> None:
    async with bench(
        tmp_path,
        CONFIG,
        {"Lead": [dispatch("Leaf") + dispatch("Leaf") + dispatch("Leaf"), say("w")], "Leaf": lambda _: hang()},
    ) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Leaf", 2)
            await service.model.started("Lead", 2)

    async with after_a_stop(tmp_path, {"Lead": with_all(3, lambda _: say("done")), "Leaf": [say("seen")]}) as service:
        end = await service.ended(started.id)

        assert end.result is not None
        assert end.result.text == "done"
        assert [status for _, status, _ in tree(service)] == ["completed"] * 4


async def test_todays_limit_on_model_calls_binds_what_goes_on_with_another_configuration_too(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Leaf": lambda _: hang()}) as service:
        started = [await service.dispatcher.start(Order("Leaf", f"look {number}")) for number in range(3)]
        with anyio.fail_after(10):
            await service.model.started("Leaf", 3)

    together = anyio.Event()

    async def leaf(_: Request) -> Turn:
        if service.model.running > 1:
            together.set()
        with anyio.move_on_after(0.2):  # for somebody else to be asked meanwhile
            await together.wait()
        return say("done")

    today = CONFIG.replace("limits: {", "limits: {max_concurrent_model_calls: 1, ")
    async with after_a_stop(tmp_path, {"Leaf": leaf}, config=today) as service:
        started.append(await service.dispatcher.start(Order("Leaf", "look, too")))
        ended = [await service.ended(each.id) for each in started]

        assert [each.status for each in ended] == ["completed"] * 4
        assert service.model.peak == 1


async def test_what_goes_on_later_says_that_it_waits_for_a_slot_and_what_is_to_stop_waits_for_none(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Leaf": lambda _: hang()}) as service:
        first, second, third = [await service.dispatcher.start(Order("Leaf", f"look {each}")) for each in range(3)]
        with anyio.fail_after(10):
            await service.model.started("Leaf", 3)

    opened = anyio.Event()
    scripts = {first.id: [gate(opened, say("first"))], second.id: [say("second")]}
    async with bench(tmp_path, CONFIG.replace("limits: {", "limits: {max_concurrent_roots: 1, "), scripts) as service:
        await service.dispatcher.services.recorder.record(CancelWished(CancelWish(third.id, "ada", "enough")))
        await service.dispatcher.adopt()
        with anyio.fail_after(10):
            await service.model.started(first.id)
        assert (await service.ended(third.id)).status == "cancelled"

        shown = {row["id"]: (row["status"], row["waiting_for"]) for row in service.sql("select * from executions")}
        assert shown[first.id] == ("running", None)
        assert shown[second.id] == ("running", "slot")
        opened.set()
        ended = [await service.ended(each.id) for each in (first, second)]
        assert [each.status for each in ended] == ["completed", "completed"]
        lost = service.sql("select execution_id from model_calls where pricing = 'lost' order by execution_id")
        assert [row["execution_id"] for row in lost] == [first.id, second.id]  # it had asked before it waited
