"""An execution that has ended is continued by a new one, which knows what the old one knew; what is done is not redone."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.store.engine import sqlite_library
from runner.errors import Refusal
from runner.origin import Origin
from runner.service.order import Order
from tests.support.models import Script, Step, call, gate, say
from tests.support.reading import delivered, dispatch, dispatched, results, shown, text_of
from tests.support.service import bench

CONFIG = """
agents:
  Lead: {sub_agents: [Leaf], description: leads}
  Middle: {description: stands between}
  Leaf: {description: looks}
agent_chains:
  line: {stages: [{name: one, agents: [Leaf, Middle]}, {name: two, agents: [Lead]}]}
"""


async def test_an_ended_execution_is_continued_with_what_it_knew_and_its_children_are_not_redone(tmp_path: Path) -> None:
    lead: Sequence[Any] = [dispatch("Leaf", "count", idempotency_key="k"), say("waiting"), say("seven")]
    async with bench(tmp_path, CONFIG, {"Lead": lead, "Leaf": [say("7 errors")]}) as service:
        first = await service.run("Lead", "how many?")
        again: list[Step] = [
            dispatch("Leaf", "count", idempotency_key="k"),
            lambda request: call("read_result", execution_id=dispatched(request)[0]),
            lambda request: say(f"still {text_of(results(request)[0])}"),
        ]
        service.model.scripts["Lead"] = again

        continued = await service.dispatcher.resume(first.id, "are you sure?")
        end = await service.ended(continued.id)

        assert continued.id != first.id
        assert end.result is not None
        assert "still" in end.result.text
        assert "7 errors" in end.result.text
        request = service.model.of(continued.id)[0]
        assert [message.kind for message in request.messages] == [
            "task", "reply", "results", "reply", "delivery", "reply", "task",
        ]  # fmt: skip
        assert request.messages[-1].text == "are you sure?"
        rows = service.sql("select agent, continues_execution_id as old, turns from executions order by id")
        assert [(row["agent"], row["old"]) for row in rows] == [("Lead", None), ("Leaf", None), ("Lead", first.id)]
        assert rows[2]["turns"] == 3


async def test_a_chain_that_failed_is_continued_where_it_failed(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {"Leaf": [say("leaf")], "Middle": [say("m")], "Synthesizer": [say("s")], "Lead": []}
    async with bench(tmp_path, CONFIG, scripts) as service:
        first = await service.run("line", "find it")
        assert first.status == "failed"
        service.model.scripts["Lead"] = [lambda request: say(f"knows {'s' in shown(request)}")]

        end = await service.ended((await service.dispatcher.resume(first.id)).id)

        assert end.result is not None
        assert end.result.text == "knows True"
        assert service.statuses() == {
            "line": ["failed", "completed"], "Leaf": ["completed"], "Middle": ["completed"], "Synthesizer": ["completed"],
            "Lead": ["failed", "completed"],
        }  # fmt: skip


async def test_a_message_to_a_continued_chain_reaches_its_agents_and_a_complete_one_names_its_last_agent(
    tmp_path: Path,
) -> None:
    scripts: dict[str, Script] = {"Leaf": [say("leaf")], "Middle": [say("m")], "Synthesizer": [say("s")], "Lead": []}
    async with bench(tmp_path, CONFIG, scripts) as service:
        first = await service.run("line", "find it")
        service.model.scripts["Lead"] = lambda request: say(f"heard {'mind the gap' in shown(request)}")

        continued = await service.dispatcher.resume(first.id, "mind the gap", Origin(session="here"))
        end = await service.ended(continued.id)

        assert end.result is not None
        assert end.result.text == "heard True"
        assert service.sql("select session_id from executions where id = ?", continued.id) == [{"session_id": "here"}]
        [last] = service.sql("select id from executions where parent_execution_id = ?", continued.id)
        with pytest.raises(Refusal, match="has run all its stages") as refused:
            await service.dispatcher.resume(continued.id, "and now?")
        assert last["id"] in refused.value.hint


async def test_a_call_that_no_process_settled_is_told_as_such_and_not_made_again(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Lead": [call("list_agents"), say("seen")]}) as service:
        first = await service.run("Lead", "look")
        with closing(sqlite_library().connect(service.database)) as connection, connection:
            connection.execute("update tool_calls set status = 'started', result = null, finished_at = null")
        service.model.scripts["Lead"] = [say("once more")]

        end = await service.ended((await service.dispatcher.resume(first.id, "and now?")).id)

        assert end.status == "completed"
        [request] = service.model.of(end.id)
        assert [message.kind for message in request.messages] == ["task", "reply", "results", "reply", "task"]
        assert "stopped before it had a result" in shown(request)


async def test_results_that_a_stopped_execution_had_not_read_reach_its_continuation(tmp_path: Path) -> None:
    held = anyio.Event()
    scripts: dict[str, Script] = {"Lead": [dispatch("Leaf"), gate(held, say("w"))], "Leaf": [say("found")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Lead", 2)
        await service.until(lambda: service.statuses().get("Leaf") == ["completed"])
        await service.dispatcher.cancel(started.id, "ada", "pause")
        assert (await service.ended(started.id)).status == "cancelled"
        service.model.scripts["Lead"] = [lambda request: say(delivered(request)[0].text)]

        end = await service.ended((await service.dispatcher.resume(started.id)).id)

        assert end.result is not None
        assert end.result.text == "found"


async def test_each_of_two_continuations_gets_what_was_not_read(tmp_path: Path) -> None:
    held = anyio.Event()
    scripts: dict[str, Script] = {"Lead": [dispatch("Leaf"), gate(held, say("w"))], "Leaf": [say("found")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead", "find it"))
        with anyio.fail_after(10):
            await service.model.started("Lead", 2)
        await service.until(lambda: service.statuses().get("Leaf") == ["completed"])
        await service.dispatcher.cancel(started.id, "ada", "pause")
        await service.ended(started.id)
        together = anyio.Event()
        service.model.scripts["Lead"] = [lambda request: gate(together, say(delivered(request)[0].text))]

        both = [await service.dispatcher.resume(started.id) for _ in range(2)]
        with anyio.fail_after(10):
            await service.model.started("Lead", 4)
        together.set()

        for each in both:
            end = await service.ended(each.id)
            assert end.result is not None
            assert (end.status, end.result.text) == ("completed", "found")
        third = await service.dispatcher.resume(both[1].id, "and now?")
        assert (await service.ended(third.id)).status == "completed"
        assert len(delivered(service.model.of(third.id)[0])) == 1
