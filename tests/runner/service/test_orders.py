"""Orders from outside: whose an execution is, what it may cost, and a key that makes it safe to ask twice."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from runner.errors import Refusal
from runner.llm.protocol import Request
from runner.service.order import Order
from runner.snapshot import Snapshot
from tests.runner.service.neighbour import CONFIG, neighbours
from tests.support.models import Turn, call, gate, say
from tests.support.reading import dispatch
from tests.support.service import bench
from tests.support.spending import used

PRICED = "models: {m: {model: some-model, max_tokens: 2000, price: {input: 1, output: 100, cache_write: 1}}}\n"


async def test_everything_below_an_order_has_its_principal_and_its_session(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [say("left")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead", principal="ada", session="monday")
        ended = await service.run("Left")

        assert ended.result is not None
        whose = service.sql("select agent, principal, session_id from executions order by id")
        assert [tuple(row.values()) for row in whose] == [
            ("Lead", "ada", "monday"),
            ("Left", "ada", "monday"),
            ("Left", None, ended.result.metadata["session_id"]),  # one of its own
        ]


@pytest.mark.parametrize(("configured", "asked", "budget"), [("", 1.0, 1.0), ("5", 1.0, 1.0), ("1", 5.0, 1.0)])
async def test_an_order_may_lower_a_budget_and_never_raise_it(
    tmp_path: Path, configured: str, asked: float, budget: float
) -> None:
    limits = f", limits: {{max_cost_usd: {configured}}}" if configured else ""
    config = PRICED + CONFIG.replace("looks left", f"looks left{limits}")

    def spend(request: Request) -> Turn:
        return (call("nothing") if request.tools else say("so far")).using(used(request, 2000))

    async with bench(tmp_path, config, {"Left": spend}) as service:
        ended = await service.run("Left", budget_usd=asked)

        assert ended.result is not None
        assert (ended.result.outcome, ended.result.reason, ended.result.text) == ("partial", "cost_budget", "so far")
        [row] = service.sql("select budget_usd, cost_usd from executions")
        assert row["budget_usd"] == budget
        assert budget / 2 < row["cost_usd"] <= budget


async def test_the_same_key_gives_the_same_execution_at_once_later_and_after_a_restart(tmp_path: Path) -> None:
    opened = anyio.Event()
    order = Order("Left", "look\x00", key="k1", principal="ada")
    found: list[tuple[Snapshot, bool]] = []
    async with bench(tmp_path, CONFIG, {"Left": [gate(opened, say("left"))]}) as service:

        async def start() -> None:
            found.append(await service.dispatcher.start_once(order))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(start)
            assert sorted(before for _, before in found) == [False, True, True, True, True]
            assert {(child.id, child.status) for child, _ in found} == {(found[0][0].id, "running")}
            opened.set()
            ended = await service.dispatcher.wait(found[0][0].id)
        later, before = await service.dispatcher.start_once(order)
        assert (later.id, later.status, before) == (ended.id, "completed", True)
        assert len(service.model.requests) == 1
        assert service.dispatcher.tree.root_slots.reserve().queue_position == 0  # those that lost keep no slot

    async with bench(tmp_path, CONFIG, {}) as service:
        again, before = await service.dispatcher.start_once(order)
        assert (again.id, again.status, before) == (ended.id, "completed", True)
        assert again.result is not None
        assert again.result.text == "left"
        assert service.statuses() == {"Left": ["completed"]}


async def test_a_key_stands_for_one_task_and_each_principal_has_its_own(tmp_path: Path) -> None:
    async with bench(tmp_path, CONFIG, {"Left": [say("left")]}) as service:
        given = {"where": "here", "when": [1, 2]}
        order = Order("Left", "one", given, key="k", principal="ada")
        first = await service.dispatcher.start(order)
        for other in (replace(order, task="two"), replace(order, name="Lead"), replace(order, input={"where": "there"})):
            with pytest.raises(
                Refusal, match=f"the key `k` was used for another dispatch: execution {first.id}"
            ) as refused:
                await service.dispatcher.start_once(other)
            assert (refused.value.kind, refused.value.hint) == ("key_reused", "use another key for another task")

        for principal in ("grace", None):
            _, before = await service.dispatcher.start_once(replace(order, principal=principal))
            assert not before
        same, before = await service.dispatcher.start_once(replace(order, name="left", input=dict(reversed(given.items()))))
        assert (same.id, before) == (first.id, True)
        assert len(service.sql("select id from executions")) == 3


async def test_of_processes_that_start_with_the_same_key_at_once_one_does(tmp_path: Path) -> None:
    with neighbours(tmp_path, 2) as others:
        for number in range(5):
            for each in others:
                each.tell("start", name="Left", task="look", key=f"k{number}")
            answers = [each.answer() for each in others]
            assert len({identifier for identifier, _ in answers}) == 1
            assert sorted(before for _, before in answers) == [False, True]
        assert others[1].ask("start", name="Left", task="else", key="k0")[0] == "key_reused"

    async with bench(tmp_path, CONFIG, {}) as service:
        assert len(service.sql("select id from executions")) == 5
