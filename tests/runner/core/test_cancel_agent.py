"""Cancelling: a child by its parent, any execution from outside, with everything below it and nothing beside it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from db.rows.endings import CancelWish
from runner.llm.protocol import Request
from runner.record.events import Event
from runner.record.facts import CancelWished
from runner.service.order import Order
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, call, gate, hang, say
from tests.support.reading import answer, delivered, dispatch, dispatched, shown
from tests.support.requirement import requirement
from tests.support.service import Bench, bench

CONFIG = """
agents:
  Top: {sub_agents: [Middle, Leaf]}
  Middle: {description: dispatches, sub_agents: [Leaf]}
  Leaf: {description: works}
"""


def cancel(index: int = 0, **more: Any) -> Any:
    """Cancel the agent dispatched as number `index`."""
    return lambda request: call("cancel_agent", execution_id=dispatched(request)[index], **more)


async def once_leaf_works(service: Bench) -> None:
    with anyio.fail_after(5):
        await service.model.started("Leaf")


@requirement("S2-CN-1", "S2-CN-4", "S2-CN-5", "S2-CA-9")
async def test_a_parent_cancels_a_child_with_everything_below_it(tmp_path: Path) -> None:
    working = anyio.Event()

    def work(_: Request) -> Turn:
        working.set()
        return hang()

    scripts = {
        "Top": [
            dispatch("Middle"),
            lambda request: gate(working, cancel(reason="no longer needed")(request)),
            say("done"),
            say("done"),
        ],
        "Middle": [say("sent one") + dispatch("Leaf"), hang()],
        "Leaf": [work],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Top")

        told = answer(service.model.of("Top")[2])
        assert (told["status"], told["cancel"]) == ("cancelled", "done")
        assert service.statuses() == {"Top": ["completed"], "Middle": ["cancelled"], "Leaf": ["cancelled"]}
        assert {request.agent for request in service.model.cancelled} == {"Middle", "Leaf"}
        rows = service.sql("select cancelled_by, cancel_reason from executions where depth > 0")
        assert rows == [{"cancelled_by": "Top", "cancel_reason": "no longer needed"}] * 2
        notices = delivered(service.model.of("Top")[-1])
        assert [(each.agent, each.status) for each in notices] == [("Middle", "cancelled")]
        assert notices[0].text == "sent one"


@requirement("S2-CN-2")
async def test_cancelling_what_has_ended_changes_nothing(tmp_path: Path) -> None:
    async def once_ended(request: Request) -> Turn:
        return call("get_result", execution_id=dispatched(request)[0], wait_seconds=20)

    rows: list[Any] = []

    def remember(request: Request) -> Turn:
        rows.extend(service.sql("select * from executions where agent = 'Leaf'"))
        return cancel()(request)  # type: ignore[no-any-return]

    scripts = {"Top": [dispatch("Leaf"), once_ended, remember, say("done")], "Leaf": [say("leaf")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        ended = await service.run("Top")

        told = answer(service.model.of("Top")[3])
        assert (told["status"], told["cancel"]) == ("completed", "already_finished")
        assert service.sql("select * from executions where agent = 'Leaf'") == rows
        assert await service.dispatcher.cancel(ended.id, by="somebody", reason="late") == "already_finished"
        assert (
            service.sql("select cancel_requested_at from executions where id = ?", ended.id)[0]["cancel_requested_at"]
            is None
        )


@requirement("S2-CN-6", "S2-GR-3")
async def test_the_slot_of_a_cancelled_child_is_free_again(tmp_path: Path) -> None:
    config = CONFIG.replace("[Middle, Leaf]", "[Middle, Leaf], max_concurrent_agents: 1")
    scripts = {
        "Top": [dispatch("Leaf"), cancel(), dispatch("Middle"), say("waiting"), say("done")],
        "Leaf": [hang()],
        "Middle": [say("middle")],
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Top")

        assert service.statuses() == {"Top": ["completed"], "Leaf": ["cancelled"], "Middle": ["completed"]}


@requirement("S2-CN-5")
async def test_wrapping_up_lets_a_child_answer_with_what_it_has(tmp_path: Path) -> None:
    opened, at_work = anyio.Event(), anyio.Event()

    async def once_it_works(request: Request) -> Turn:
        await at_work.wait()
        turn: Turn = cancel(mode="wrap_up")(request)
        return turn

    scripts = {
        "Top": [dispatch("Leaf"), once_it_works, say("waiting"), say("done")],
        "Leaf": [gate(opened, call("nothing")), say("what I have")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Top"))
        with anyio.fail_after(5):
            await service.model.started("Leaf")
            at_work.set()
            await service.model.started("Top", 3)
            opened.set()
            await service.dispatcher.wait(started.id)

        row = service.sql("select status, outcome, reason from executions where agent = 'Leaf'")[0]
        assert row == {"status": "completed", "outcome": "partial", "reason": "asked"}
        assert delivered(service.model.of("Top")[-1])[0].text == "what I have"


@requirement("S2-CN-7")
async def test_a_result_that_comes_after_the_cancel_is_kept_beside_it(tmp_path: Path) -> None:
    def stopped_meanwhile(_: Request) -> Turn:
        # As another process does it: the wish is stored while the model answers, and nobody here was told.
        services.recorder.record_nowait(CancelWished(CancelWish(started.id, "somebody", "enough")))
        return say("too late, but here")

    async with bench(tmp_path, CONFIG, {"Leaf": [stopped_meanwhile]}) as service:
        services = service.dispatcher.services
        started = await service.dispatcher.start(Order("Leaf"))
        with anyio.fail_after(5):
            ended = await service.dispatcher.wait(started.id)

        assert ended.status == "cancelled"
        assert ended.result is not None
        assert (ended.result.outcome, ended.result.text) == ("partial", "too late, but here")
        ends = service.sql(
            "select seq from events where type = 'execution.status' and json_extract(payload, '$.status') = 'cancelled'"
        )
        assert len(ends) == 1


@requirement("S2-CA-8", "S2-CT-9")
async def test_no_tool_call_begins_once_the_wish_to_stop_is_stored_and_the_reply_is_paid_for(tmp_path: Path) -> None:
    began: list[object] = []

    async def poke(arguments: object) -> str:
        began.append(arguments)
        return "poked"

    def stopped_meanwhile(_: Request) -> Turn:
        # As another process does it: the wish is stored while the model answers, and nobody here was told.
        services.recorder.record_nowait(CancelWished(CancelWish(started.id, "somebody", "enough")))
        return say("I poke") + call("poke") + dispatch("Leaf")

    tools = LocalTools({"poke": poke})
    async with bench(tmp_path, CONFIG, {"Top": [stopped_meanwhile]}, tools.for_agents("Top")) as service:
        services = service.dispatcher.services
        started = await service.dispatcher.start(Order("Top"))
        with anyio.fail_after(5):
            ended = await service.dispatcher.wait(started.id)

        assert (ended.status, ended.error, began) == ("cancelled", None, [])
        assert ended.result is not None
        assert ended.result.text == "I poke"
        assert service.statuses() == {"Top": ["cancelled"]}
        rows = service.sql("select status, error_type, result like '%before it began' as unbegun from tool_calls")
        assert rows == [{"status": "failed", "error_type": "cancelled", "unbegun": 1}] * 2
        assert service.sql("select seq from events where type = 'timeline_event.created' and payload like '%tool%'") == []
        assert service.sql("select turns, output_tokens from executions") == [{"turns": 1, "output_tokens": 5}]
        assert service.sql("select * from error_records") == []


@requirement("S2-CA-1", "S2-CA-2", "S2-CA-6")
async def test_a_cancelled_orchestrator_ends_its_model_call_at_once_and_makes_no_other(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Leaf": [hang(), hang()]}) as service:
        async with service.dispatcher.services.bus.watch() as events:
            started = await service.dispatcher.start(Order("Leaf"))
            await once_leaf_works(service)
            assert await service.dispatcher.cancel(started.id, by="somebody", reason="enough") == "requested"
            with anyio.fail_after(5):
                ended = await service.dispatcher.wait(started.id)
                said: list[Event] = []
                while not said or said[-1]["type"] != "execution.status" or '"cancelled"' not in said[-1]["payload"]:
                    said.append(await events.receive())
        assert (ended.status, ended.error) == ("cancelled", None)
        assert (len(service.model.requests), len(service.model.cancelled), service.model.running) == (1, 1, 0)


@requirement("S2-CA-1", "S2-CA-3", "S2-CA-4", "S2-CA-5")
async def test_children_in_a_model_call_in_a_tool_call_and_before_their_start_all_stop(tmp_path: Path) -> None:
    in_tool, alive = anyio.Event(), 0

    async def forever(_: Any) -> str:
        nonlocal alive
        alive += 1
        in_tool.set()
        try:
            await anyio.sleep_forever()
        finally:
            alive -= 1
        return "never"

    config = """
    agents:
      Top: {sub_agents: [Thinker, Caller, Queued], max_concurrent_agents: 2}
      Thinker: {description: thinks}
      Caller: {description: calls}
      Queued: {description: waits}
    """
    scripts = {
        "Top": [dispatch("Thinker") + dispatch("Caller") + dispatch("Queued"), say("waiting")],
        "Thinker": [hang()],
        "Caller": [call("forever")],
    }
    tools = LocalTools({"forever": forever})
    async with bench(tmp_path, config, scripts, tools.for_agents("Caller")) as service:
        started = await service.dispatcher.start(Order("Top"))
        with anyio.fail_after(5):
            await in_tool.wait()
            await service.model.started("Thinker")
            await service.model.started("Top", 2)
            await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)

        assert {status for statuses in service.statuses().values() for status in statuses} == {"cancelled"}
        assert (alive, service.model.running, list(service.dispatcher.tree)) == (0, 0, [])
        assert not service.model.of("Queued")
        last = service.sql("select execution_id from events where type = 'execution.status' order by seq desc limit 1")
        assert last == [{"execution_id": started.id}]
        assert service.sql("select id from tool_calls where status = 'started'") == []


@requirement("S2-CA-7")
async def test_a_cancel_reaches_forty_executions_on_three_levels(tmp_path: Path) -> None:
    config = CONFIG.replace("sub_agents:", "max_concurrent_agents: 12, sub_agents:")
    three = dispatch("Middle") + dispatch("Middle") + dispatch("Middle")
    twelve = dispatch("Leaf")
    for _ in range(11):
        twelve += dispatch("Leaf")
    scripts = {"Top": [three, hang()], "Middle": [twelve, hang()], "Leaf": [hang()]}
    async with bench(tmp_path, config, scripts) as service:
        started = await service.dispatcher.start(Order("Top"))
        with anyio.fail_after(8):
            await service.model.started("Leaf", 36)
            await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            await service.dispatcher.wait(started.id)

        assert service.sql("select status, count(*) as n from executions group by status") == [
            {"status": "cancelled", "n": 40}
        ]
        assert (service.model.running, list(service.dispatcher.tree)) == (0, [])


@requirement("S2-CA-8")
async def test_nothing_starts_under_a_cancelled_execution(tmp_path: Path) -> None:
    async def dispatch_late(_: Request) -> Turn:
        with anyio.CancelScope(shield=True):  # the reply arrives although the call was cancelled
            await wished.wait()
        return dispatch("Leaf")

    wished = anyio.Event()
    scripts = {"Top": [dispatch_late], "Leaf": [hang()]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Top"))
        with anyio.fail_after(5):
            await service.model.started("Top")
            await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            wished.set()
            await service.dispatcher.wait(started.id)

        assert service.statuses() == {"Top": ["cancelled"]}
        assert not service.model.of("Leaf")


@requirement("S2-CA-10")
async def test_what_waits_for_its_slot_can_be_cancelled(tmp_path: Path) -> None:
    config = CONFIG + "defaults: {limits: {max_concurrent_roots: 1}}\n"
    async with bench(tmp_path, config, {"Leaf": [hang()]}) as service:
        first = await service.dispatcher.start(Order("Leaf"))
        second = await service.dispatcher.start(Order("Leaf"))
        assert (second.status, second.queue_position) == ("pending", 1)
        await once_leaf_works(service)
        with anyio.fail_after(5):
            await service.dispatcher.cancel(second.id, by="somebody", reason="enough")
            assert (await service.dispatcher.wait(second.id)).status == "cancelled"

        assert len(service.model.requests) == 1
        assert service.statuses() == {"Leaf": ["running", "cancelled"]}
        await service.dispatcher.cancel(first.id, by="the test", reason="over")


@requirement("S2-CA-12", "S2-LE-7", "S2-WA-3")
async def test_work_finished_before_the_cancel_stays_readable(tmp_path: Path) -> None:
    scripts = {
        "Top": [dispatch("Leaf") + dispatch("Middle"), say("waiting")],
        "Leaf": [say("finished in time")],
        "Middle": [hang()],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        async with service.dispatcher.services.bus.watch() as events:
            started = await service.dispatcher.start(Order("Top"))
            with anyio.fail_after(5):
                while (await events.receive())["type"] != "delivery.created":
                    pass
                await service.model.started("Middle")
                await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
                ended = await service.dispatcher.wait(started.id)

        assert service.statuses() == {"Top": ["cancelled"], "Leaf": ["completed"], "Middle": ["cancelled"]}
        kept = service.sql("select json_extract(result, '$.output') as text from executions where agent = 'Leaf'")
        assert kept == [{"text": "finished in time"}]
        assert ended.result is not None
        assert "finished in time" in ended.result.text


@requirement("S2-LE-4")
@pytest.mark.parametrize("moment", ["model", "tool", "wait"])
async def test_cancelled_is_never_an_error(tmp_path: Path, moment: str) -> None:
    in_tool = anyio.Event()

    async def forever(_: Any) -> str:
        in_tool.set()
        await anyio.sleep_forever()
        return "never"

    first = {"model": hang(), "tool": call("forever"), "wait": dispatch("Leaf")}[moment]
    scripts = {"Top": [first, say("waiting")], "Leaf": [hang()]}
    tools = LocalTools({"forever": forever})
    async with bench(tmp_path, CONFIG, scripts, tools.for_agents("Top")) as service:
        started = await service.dispatcher.start(Order("Top"))
        with anyio.fail_after(5):
            if moment == "tool":
                await in_tool.wait()
            else:
                await service.model.started("Leaf" if moment == "wait" else "Top")
            await service.dispatcher.cancel(started.id, by="somebody", reason="enough")
            ended = await service.dispatcher.wait(started.id)

        assert (ended.status, ended.error) == ("cancelled", None)
        assert service.sql("select * from error_records") == []
        assert service.sql("select id from executions where error is not null or error_type is not null") == []
        stored = " ".join(str(row) for row in service.sql("select result from executions"))
        assert "CancelledError" not in stored
        assert "Cancelled by cancel scope" not in stored + shown(service.model.of("Top")[-1])
