"""What a tree used stands beside what its top used itself, wherever a client or an agent reads about it."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.types import TextResourceContents

from tests.server.mcp_face.test_tasks import started, task_client, until
from tests.server.mcp_face.test_tools import CONFIG, ERAS
from tests.support.face import face, text_of
from tests.support.models import call, gate, say
from tests.support.reading import answer, dispatch, dispatched
from tests.support.service import bench

PRICED = CONFIG + "models: {scripted: {model: any, price: {input: 2, output: 10}}}\n"
TURN, TOKENS = 0.00007, 15
"""What one turn of the scripted model costs: ten tokens in and five out."""


@ERAS
async def test_a_chain_tells_what_its_agents_cost(tmp_path: Path, era: str) -> None:
    scripts = {"Left": [say("left")], "Right": [say("right")], "SynthesisAgent": [say("both")]}
    async with face(tmp_path, PRICED, scripts) as opened, opened.client(era) as caller:
        chain = (await caller.call("run_chain", chain="look", task="look"))["execution_id"]
        ended = await caller.call("get_result", execution_id=chain, wait_seconds=20)
        waited = await caller.call("wait_for", execution_ids=[chain])
        words = text_of(await caller.client.call_tool("get_result", {"execution_id": chain}))
        listed = await caller.call("list_executions")
        lines = text_of(await caller.client.call_tool("list_executions", {}))
        agents = await caller.call("list_agents")
        [read] = (await caller.client.read_resource(f"execution://{chain}")).contents
        rows = opened.bench.sql("select turns from executions")

    turns = _turns(rows)
    assert turns >= 2
    together = {
        "executions": len(rows),
        "turns": turns,
        "tool_calls": 0,
        "tokens": turns * TOKENS,
        "cost_usd": pytest.approx(turns * TURN),
    }
    assert ended["usage"]["cost_usd"] == 0
    assert ended["subtree_usage"] == waited["executions"][0]["subtree_usage"] == together
    assert isinstance(read, TextResourceContents)
    assert json.loads(read.text)["subtree_usage"] == together
    assert f"cost: ${turns * TURN:.4f}" in words
    assert "$0.0000" not in words
    [row], [brief] = listed["executions"], agents["executions"]
    assert (row["cost_usd"], row["subtree_cost_usd"]) == (0, pytest.approx(turns * TURN))
    assert (row["subtree_tokens"], row["subtree_executions"]) == (turns * TOKENS, len(rows))
    assert (brief["cost_usd"], brief["subtree_cost_usd"]) == (0, pytest.approx(turns * TURN))
    assert f"${turns * TURN:.4f} with its agents" in lines


@ERAS
async def test_what_running_children_used_is_told_with_the_progress(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.mcp_face.client.REPORT_SECONDS", 0.02)
    opened_gate = anyio.Event()
    heard: list[str] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        assert (progress > 0, total) == (True, None)
        if not opened_gate.is_set():
            heard.append(message or "")
            opened_gate.set()

    two = dispatch("Left", "here") + dispatch("Left", "there")
    scripts = {
        "Lead": [two, say("waiting"), say("led"), say("led")],
        "Left": [call("nothing"), gate(opened_gate, say("left"))],
    }
    async with face(tmp_path, PRICED, scripts) as opened, opened.client(era) as caller:
        lead = (await caller.call("dispatch_agent", name="Lead", task="lead"))["execution_id"]
        await opened.model.started("Left", 4)  # both have paid for a turn and run
        await opened.model.started("Lead", 2)
        await opened.bench.until(lambda: _turns(opened.bench.sql("select turns from executions")) == 4)
        running = await caller.call("get_result", execution_id=lead, wait_seconds=0)
        arguments = {"execution_id": lead, "wait_seconds": 20}
        ended = await caller.client.call_tool("get_result", arguments, progress_callback=report)

    assert running["status"] == "running"
    assert (running["usage"]["turns"], running["subtree_usage"]["turns"]) == (2, 4)
    assert running["subtree_usage"]["cost_usd"] == pytest.approx(4 * TURN)
    assert not ended.is_error
    assert heard[-1].startswith("Lead: ")
    assert heard[-1].endswith("(3 executions, 60 tokens, $0.0003 so far)")


def _turns(rows: list[dict[str, Any]]) -> int:
    return sum(row["turns"] for row in rows)


async def test_a_budget_is_told_with_what_the_tree_spent_of_it_while_it_runs_and_afterwards(tmp_path: Path) -> None:
    opened_gate = anyio.Event()
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("led")], "Left": [gate(opened_gate, say("left"))]}
    async with face(tmp_path, PRICED, scripts) as opened, opened.client() as caller:
        lead = (await caller.call("dispatch_agent", name="Lead", task="lead", budget_usd=0.5))["execution_id"]
        await opened.model.started("Left")
        running = await caller.call("get_result", execution_id=lead, wait_seconds=0)
        opened_gate.set()
        ended = await caller.call("get_result", execution_id=lead, wait_seconds=20)
        later = await caller.call("get_result", execution_id=lead)
        words = text_of(await caller.client.call_tool("get_result", {"execution_id": lead}))

    assert running["usage"]["budget"]["usd"] == 0.5
    assert ended["usage"]["budget"] == later["usage"]["budget"] == {"usd": 0.5, "spent_usd": pytest.approx(4 * TURN)}
    assert "budget, with its agents: $0.0003 of $0.5000" in words


async def test_a_task_tells_what_its_tree_used(tmp_path: Path) -> None:
    opened_gate = anyio.Event()
    scripts = {
        "Lead": [dispatch("Left"), say("waiting"), say("led")],
        "Left": [call("nothing"), gate(opened_gate, say("left"))],
    }
    async with face(tmp_path, PRICED, scripts) as opened, task_client(opened) as (client, tasks):
        task = await started(client, tasks, "dispatch_agent", name="Lead", task="lead")
        await opened.bench.until(lambda: _turns(opened.bench.sql("select turns from executions")) == 3)
        working = await until(client, task, lambda status: status == "working")
        opened_gate.set()
        done = await until(client, task, lambda status: status != "working")

    assert working["statusMessage"].endswith("(2 executions, 45 tokens, $0.0002 so far)")
    assert done["result"]["structuredContent"]["subtree_usage"]["cost_usd"] == pytest.approx(5 * TURN)


async def test_an_agent_reads_what_the_trees_of_its_children_used(tmp_path: Path) -> None:
    config = PRICED.replace("Hidden: {}", "Top: {sub_agents: [Lead]}")
    scripts = {
        "Top": [
            dispatch("Lead"),
            lambda request: call("get_result", execution_id=dispatched(request)[0], wait_seconds=20),
            call("list_agents"),
            say("done"),
        ],
        "Lead": [dispatch("Left"), say("waiting"), say("led")],
        "Left": [say("left")],
    }
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Top")
        told, listed = answer(service.model.of("Top")[2]), answer(service.model.of("Top")[3])

    own, together = told["usage"]["cost_usd"], told["subtree_usage"]
    assert (together["executions"], together["turns"]) == (2, told["usage"]["turns"] + 1)
    assert together["cost_usd"] == pytest.approx(own + TURN)
    [line] = listed["executions"]
    assert (line["cost_usd"], line["subtree_cost_usd"]) == (own, together["cost_usd"])
