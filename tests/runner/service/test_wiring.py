"""How an execution is put together: one path for every kind of run, one bundle of services, one map of ends."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.errors import StoreError
from db.status import ExecutionStatus
from registry import AgentSpec, ConfigError
from runner.core.verdict import Cause, verdict
from runner.errors import Interrupted, Refusal
from runner.llm.protocol import ModelError, Request
from runner.result import Outcome, Result, completed, partial
from runner.service.order import Order
from runner.tools.protocol import ToolExecutor
from tests.support.local_tools import LocalTools
from tests.support.models import Turn, crash, say
from tests.support.reading import delivered, dispatch, shown
from tests.support.requirement import requirement
from tests.support.service import bench, settings_of
from tests.support.sources import python_files, relative, text_of

CONFIG = """
agents:
  Lead: {sub_agents: [Left, Right]}
  Left: {description: looks left}
  Right: {description: looks right}
agent_chains:
  chain: {stages: [{name: only, agents: [Right]}]}
"""


@requirement("S2-AF-1")
async def test_with_and_without_agents_to_dispatch_the_strategy_is_the_same(tmp_path: Path) -> None:
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [say("left")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        assert service.sql("select distinct strategy from executions") == [{"strategy": "loop"}]
    assert not any("can_dispatch" in (text_of(file) or "") for file in python_files("runner"))


@requirement("S2-AF-2")
def test_an_unknown_strategy_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(tmp_path, "agents: {Odd: {strategy: magic}}")

    told = str(caught.value)
    assert "magic" in told
    assert "loop" in told + str(getattr(caught.value, "hint", ""))


@requirement("S2-AF-3", "S2-SE-3")
async def test_roots_children_and_stage_agents_go_through_one_path(tmp_path: Path) -> None:
    equipped: list[str] = []

    def equip(agent: AgentSpec) -> ToolExecutor:
        equipped.append(agent.name)
        return LocalTools({})

    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [say("left")], "Right": [say("right")]}
    async with bench(tmp_path, CONFIG, scripts, [equip]) as service:
        await service.run("Lead")
        await service.run("chain")

        assert equipped == ["Lead", "Left", "Right"]
        roles = service.sql("select agent, role from executions order by created_at, depth")
        assert [row["role"] for row in roles] == ["root", "sub_agent", "root", "stage"]
    made = [relative(file) for file in python_files("runner", "server") if "CompositeTools(" in (text_of(file) or "")]
    assert made == ["runner/strategies/toolset.py"]


@requirement("S2-SE-1")
async def test_the_tools_to_dispatch_are_there_for_an_agent_with_sub_agents_and_for_no_other(
    tmp_path: Path,
) -> None:
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [dispatch("Right"), say("left alone")]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        lead, left = service.model.of("Lead")[0], service.model.of("Left")
        assert {"dispatch_agent", "get_result", "cancel_agent"} <= {tool.name for tool in lead.tools}
        assert not {"dispatch_agent", "get_result", "cancel_agent"} & {tool.name for tool in left[0].tools}
        assert "there is no tool `dispatch_agent`" in str(left[1].messages[-1].content)
        assert service.statuses() == {"Lead": ["completed"], "Left": ["completed"]}


@requirement("S2-SE-2")
async def test_two_orchestrators_at_once_share_neither_slots_nor_inboxes(tmp_path: Path) -> None:
    both, alive = anyio.Event(), 0

    async def meet(request: Request) -> Turn:
        nonlocal alive
        alive += 1
        if alive == 2:
            both.set()
        await both.wait()
        return say(f"for {request.messages[0].text}")

    def lead(request: Request) -> Turn:
        if len(request.messages) == 1:
            return dispatch("Left", request.messages[0].text)
        return say(delivered(request)[0].text if delivered(request) else "waiting")

    config = CONFIG.replace("[Left, Right]", "[Left, Right], max_concurrent_agents: 1")
    async with bench(tmp_path, config, {"Lead": lead, "Left": meet}) as service:
        answers: dict[str, Any] = {}

        async def run(task: str) -> None:
            answers[task] = (await service.run("Lead", task)).result

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(run, "one")
                group.start_soon(run, "two")

        assert {task: result.text for task, result in answers.items()} == {"one": "for one", "two": "for two"}
        assert [row["position"] for row in service.sql("select position from executions where depth = 1")] == [1, 1]


@requirement("S2-SE-4")
async def test_two_services_in_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    async with (
        bench(folders[0], CONFIG, {"Left": [say("from a")]}) as first,
        bench(folders[1], CONFIG, {"Left": [say("from b")]}) as second,
    ):
        one, two = await first.run("Left"), await second.run("Left")

        assert [ended.result and ended.result.text for ended in (one, two)] == ["from a", "from b"]
        assert len(first.sql("select id from executions")) == len(second.sql("select id from executions")) == 1


ENDS: list[tuple[Result | Cause | Exception, ExecutionStatus, str | None, bool | None]] = [
    (completed("all of it"), ExecutionStatus.COMPLETED, None, None),
    (Result(Outcome.PARTIAL, "half"), ExecutionStatus.COMPLETED, None, None),
    (Result(Outcome.FAILED, "could not"), ExecutionStatus.FAILED, "failed", True),
    (partial("", "time_budget"), ExecutionStatus.FAILED, "failed", True),
    (partial("", "cost_budget"), ExecutionStatus.FAILED, "failed", False),
    (Cause("deadline"), ExecutionStatus.TIMED_OUT, "timeout", True),
    (Cause("user", "somebody", "enough"), ExecutionStatus.CANCELLED, None, None),
    (Cause("parent"), ExecutionStatus.CANCELLED, None, None),
    (ModelError("overloaded", "busy", recoverable=True), ExecutionStatus.FAILED, "model", True),
    (ModelError("refused", "declined"), ExecutionStatus.FAILED, "model", False),
    (Refusal("unknown_agent", "nobody", "look"), ExecutionStatus.FAILED, "unknown_agent", False),
    (Interrupted("so on"), ExecutionStatus.FAILED, "interrupted", True),
    (StoreError("full"), ExecutionStatus.FAILED, "store", False),
    (RuntimeError("a bug"), ExecutionStatus.FAILED, "internal", False),
    (TimeoutError(), ExecutionStatus.FAILED, "internal", False),
]


@requirement("S2-LE-13")
@pytest.mark.parametrize(("end", "status", "error_type", "recoverable"), ENDS)
def test_each_way_to_end_means_one_state_and_says_whether_another_attempt_may_help(
    end: Result | Cause | Exception, status: ExecutionStatus, error_type: str | None, recoverable: bool | None
) -> None:
    judged = verdict(end, "found so far")

    assert (judged.status, judged.error_type) == (status, error_type)
    assert [problem.recoverable for problem in judged.result.errors] == ([] if recoverable is None else [recoverable])
    if not isinstance(end, Result):
        assert judged.result.text == "found so far"


@requirement("S2-LE-13")
def test_only_one_function_decides_between_the_states() -> None:
    decides = re.compile(r"ExecutionStatus\.TIMED_OUT|['\"]timed_out['\"]")
    files = [relative(file) for file in python_files("runner") if decides.search(text_of(file) or "")]

    # Beside the map: how a delivery and a chat word it, what wakes a waiting parent, and what a replay repeats.
    words = {"runner/chat.py", "runner/prompt/deliveries.py", "runner/core/inbox.py"}
    assert set(files) == {"runner/core/verdict.py", *words, "runner/replay/playback.py", "runner/replay/track.py"}


@requirement("S2-LE-16")
@pytest.mark.parametrize("error", [RuntimeError("CANARY 500 <html>"), OSError("CANARY"), ValueError("CANARY")])
async def test_the_text_of_an_unexpected_error_reaches_no_model(tmp_path: Path, error: Exception) -> None:
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [crash(error)]}
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        assert not any("CANARY" in shown(request) + request.system for request in service.model.requests)
        assert [each.status for each in delivered(service.model.of("Lead")[-1])] == ["failed"]
        told = service.sql("select error, result from executions where agent = 'Left'")[0]
        assert "CANARY" not in str(told)


@requirement("S2-LE-6")
async def test_an_execution_outlives_its_caller(tmp_path: Path) -> None:
    opened = anyio.Event()

    async def left(_: Request) -> Turn:
        await opened.wait()
        return say("left")

    async with bench(tmp_path, CONFIG, {"Left": left}) as service:
        ids: list[str] = []

        async def ask() -> None:
            ids.append((await service.dispatcher.start(Order("Left"))).id)
            await service.dispatcher.wait(ids[0])

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await service.model.started("Left")
                group.cancel_scope.cancel("the caller went away")
            opened.set()
            ended = await service.dispatcher.wait(ids[0])

        assert ended.status == "completed"
