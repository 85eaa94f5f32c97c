"""What else a dispatch may say: facts beside the task, a budget, a key that makes it safe to ask twice."""

import math
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.llm.protocol import Request
from runner.service.order import Order
from tests.support.models import Turn, call, gate, say
from tests.support.reading import answer, delivered, dispatch, dispatched, results, text_of
from tests.support.service import bench
from tests.support.spending import used

CONFIG = """
models: {m: {model: some-model, max_tokens: 2000, price: {input: 1, output: 100, cache_write: 1, cache_write_1h: 1}}}
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
"""


async def test_the_same_key_gives_the_same_child_whether_at_once_or_later(tmp_path: Path) -> None:
    opened = anyio.Event()
    keyed = dispatch("Left", idempotency_key="left-1")
    scripts = {
        "Lead": [keyed + keyed, keyed, say("waiting"), keyed, say("done")],
        "Left": [gate(opened, say("left"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            await service.model.started("Lead", 3)
            opened.set()
            await service.dispatcher.wait(started.id)

        last = service.model.of("Lead")[-1]
        assert len(dispatched(last)) == 4
        assert len(set(dispatched(last))) == 1
        assert [answer(service.model.of("Lead")[1], index)["status"] for index in (0, 1)] == ["running"] * 2
        assert answer(last)["status"] == "completed"
        assert service.statuses() == {"Lead": ["completed"], "Left": ["completed"]}
        assert service.sql("select idempotency_key from executions where depth = 1") == [{"idempotency_key": "left-1"}]
        assert len(delivered(last)) == 1
        assert service.sql("select id from tool_calls where status != 'completed'") == []


async def test_a_key_stands_for_one_task_of_one_caller(tmp_path: Path) -> None:
    scripts = {
        "Lead": [
            dispatch("Left", "one", idempotency_key="k"),
            dispatch("Left", "two", idempotency_key="k") + dispatch("Right", "one", idempotency_key="k"),
            say("waiting"),
            say("done"),
        ],
        "Left": [say("left")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")
        await service.run("Lead")  # another caller, another child

        blocks = results(service.model.of("Lead")[2])
        assert [block.get("is_error") for block in blocks] == [True, True]
        assert "the key `k` was used for another dispatch" in blocks[0]["content"]
        assert "\nhint: use another key" in blocks[0]["content"]
        assert service.statuses()["Left"] == ["completed"] * 2
        assert "Right" not in service.statuses()


async def test_further_facts_reach_the_child_after_its_task(tmp_path: Path) -> None:
    scripts = {
        "Lead": [dispatch("Left", "look", context="it began at noon"), say("waiting"), say("done")],
        "Left": [say("left")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        assert service.model.of("Left")[0].messages[0].text == "look\n\nit began at noon"


@pytest.mark.parametrize("asked", [0.5, 50.0])
async def test_a_budget_binds_the_child_and_is_never_more_than_its_caller_has_left(tmp_path: Path, asked: float) -> None:
    def spend(request: Request) -> Turn:
        return (call("nothing") if request.tools else say("concluded")).using(used(request, 2000))

    def lead(request: Request) -> Turn:
        spoken = say("waiting") if len(request.messages) > 1 else dispatch("Left", budget_usd=asked)
        return spoken.using(used(request, 1000))

    config = CONFIG.replace("[Left, Right]}", "[Left, Right], limits: {max_cost_usd: 1}}")
    async with bench(tmp_path, config, {"Lead": lead, "Left": spend}) as service:
        await service.run("Lead")

        parent, child = service.sql("select budget_usd, outcome, reason, cost_usd from executions order by depth")
        assert child["budget_usd"] == asked or 0.5 < child["budget_usd"] < parent["budget_usd"] - parent["cost_usd"]
        assert (child["outcome"], child["reason"]) == ("partial", "cost_budget")
        assert child["budget_usd"] / 2 < child["cost_usd"] <= child["budget_usd"]
        left = ("completed", None) if asked < 1 else ("partial", "cost_budget")  # it gave away all but its conclusion
        assert (parent["outcome"], parent["reason"]) == left


@pytest.mark.parametrize("endless", [{"timeout_seconds": math.inf}, {"timeout_seconds": 1e12}, {"budget_usd": math.nan}])
async def test_a_time_or_a_budget_without_end_is_refused_by_name(tmp_path: Path, endless: dict[str, Any]) -> None:
    scripts = {"Lead": [dispatch("Left", **endless), say("done")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")
        [refused] = results(service.model.of("Lead")[-1])

    assert f"`{next(iter(endless))}` is wrong" in text_of(refused)
    assert service.statuses() == {"Lead": ["completed"]}
