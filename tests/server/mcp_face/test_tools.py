"""The tools as an MCP client uses them, in both eras of the protocol."""

from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

from server.mcp_face import text
from tests.support.face import Caller, Face, face, text_of
from tests.support.models import call, fail, gate, say, shared
from tests.support.reading import dispatch
from tests.support.requirement import requirement

CONFIG = """
agents:
  Lead: {type: orchestrator, description: leads others, sub_agents: [Left]}
  Left: {description: looks left, capabilities: [search, count]}
  Right: {description: looks right}
  Hidden: {}
agent_chains:
  look: {description: looks everywhere, alert_types: [Slow], stages: [{name: all, agents: [Left, Right]}]}
"""

TOOLS = [
    "list_agents",
    "dispatch_agent",
    "get_result",
    "wait_for",
    "cancel_agent",
    "send_message",
    "read_result",
    "run_agent",
    "run_chain",
    "list_executions",
    "get_execution_tree",
    "query_executions",
]

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])


@requirement("S2-MC-1", "S2-MC-2")
@ERAS
async def test_every_tool_says_what_it_takes_what_it_gives_and_what_it_does(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client(era) as caller:
        listed = (await caller.client.list_tools()).tools

    assert [tool.name for tool in listed] == TOOLS
    for tool in listed:
        assert tool.title
        assert tool.description
        assert len(tool.name) <= 64
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"
        assert all(each.get("description") for each in tool.input_schema["properties"].values())
    by_name = {tool.name: tool for tool in listed}
    offered = by_name["dispatch_agent"].description or ""
    assert "- Lead: leads others\n- Left: looks left\n- Right: looks right" in offered
    assert "Hidden" not in offered
    assert "- look: looks everywhere" in (by_name["run_chain"].description or "")
    hints = {tool.name: tool.annotations for tool in listed}
    read_only = {name for name, hint in hints.items() if hint is not None and hint.read_only_hint}
    assert read_only == set(TOOLS) - {"dispatch_agent", "cancel_agent", "send_message", "run_agent", "run_chain"}
    assert [name for name, hint in hints.items() if hint is not None and hint.destructive_hint] == ["cancel_agent"]


@ERAS
async def test_an_agent_that_takes_input_is_given_it_by_name(tmp_path: Path, era: str) -> None:
    schema = "{type: object, required: [topic], properties: {topic: {type: string}}}"
    config = f"agents: {{Writer: {{description: writes, input_schema: {schema}}}}}"
    async with face(tmp_path, config, {"Writer": [say("about tides")]}) as opened, opened.client(era) as caller:
        tools = {tool.name: tool for tool in (await caller.client.list_tools()).tools}
        assert all("input" in tools[name].input_schema["properties"] for name in ("dispatch_agent", "run_agent"))
        listed = await caller.call("list_agents")
        assert listed["agents"][0]["input_schema"]["required"] == ["topic"]
        refused = await caller.client.call_tool("run_agent", {"name": "Writer", "task": "write"})
        assert refused.is_error
        assert "pass `topic` (required)" in text_of(refused)
        told = await caller.call("run_agent", name="Writer", task="write", input={"topic": "tides"})
        assert told["result"]["output"] == "about tides"
        assert '"topic": "tides"' in opened.model.requests[0].messages[0].text


@requirement("S2-MC-2", "S2-MC-3", "S2-TL-7")
@ERAS
async def test_a_dispatch_answers_with_an_id_and_its_result_is_asked_for(tmp_path: Path, era: str) -> None:
    opened_gate = anyio.Event()
    scripts = {"Left": [gate(opened_gate, say("nothing on the left"))]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client(era) as caller:
        started = await caller.call("dispatch_agent", name="left", task="look", context="at noon")
        assert started["status"] == "running"
        assert "Call get_result for its result" in started["note"]
        waiting = await caller.call("get_result", execution_id=started["execution_id"], wait_seconds=0)
        opened_gate.set()
        ended = await caller.call("get_result", execution_id=started["execution_id"], wait_seconds=20)

        assert (waiting["status"], waiting.get("result")) == ("running", None)
        assert waiting["progress"]["activity"] == "asking the model"
        assert waiting["retry_after_seconds"] >= 1
        assert (ended["status"], ended["result"]["output"]) == ("completed", "nothing on the left")
        [row] = opened.bench.sql("select * from executions")
        assert (row["id"], row["parent_execution_id"], row["task"]) == (started["execution_id"], None, "look\n\nat noon")
        listed = await caller.call("list_agents")
        assert [each["execution_id"] for each in listed["executions"]] == [row["id"]]
        assert [each["capabilities"] for each in listed["agents"] if "capabilities" in each] == [["search", "count"]]


async def three(caller: Caller) -> list[str]:
    """Three executions of Right."""
    return [(await caller.call("dispatch_agent", name="Right", task=f"{n}"))["execution_id"] for n in range(3)]


@requirement("S2-MC-4")
async def test_a_wait_for_any_ends_with_the_first_and_one_that_runs_out_is_a_normal_answer(tmp_path: Path) -> None:
    gates = [anyio.Event() for _ in range(3)]
    turns = {str(number): gate(each, say(f"right {number}")) for number, each in enumerate(gates)}
    scripts = {"Right": [lambda request: turns[request.messages[0].text]]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        ids = await three(caller)
        early = await caller.call("wait_for", execution_ids=ids, mode="any", wait_seconds=0.1)
        gates[1].set()
        first = await caller.call("wait_for", execution_ids=ids, mode="any", wait_seconds=20)
        for each in gates:
            each.set()
        everything = await caller.call("wait_for", execution_ids=ids, mode="all", wait_seconds=20)

    assert (early["ended"], early["open"]) == (0, 3)
    assert (first["ended"], first["open"]) == (1, 2)
    assert [each["status"] for each in first["executions"]] == ["running", "completed", "running"]
    assert [each["result"]["output"] for each in everything["executions"]] == ["right 0", "right 1", "right 2"]


async def test_the_usual_duration_of_an_agent_is_told_while_one_runs(tmp_path: Path) -> None:
    never = anyio.Event()
    scripts = {"Left": [say("quick")]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        done = await caller.call("run_agent", name="Left", task="once", wait_seconds=20)
        opened.model.scripts["Left"] = [gate(never, say("never"))]
        running = await caller.call("run_agent", name="Left", task="again", wait_seconds=0)

    assert done["status"] == "completed"
    assert 0 <= running["progress"]["usually_seconds"] < 20
    assert (running["status"], running["usage"]["turns"]) == ("running", 0)


@requirement("S2-MC-8")
async def test_a_chain_is_started_with_an_alert_and_its_tree_can_be_read(tmp_path: Path) -> None:
    scripts = {"Left": [say("left")], "Right": [say("right")], "SynthesisAgent": [say("both")]}
    alert = {"labels": {"alertname": "Slow"}, "annotations": {"summary": "checkout is slow"}}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        started = await caller.call("run_chain", chain="Look", input=alert)
        ended = await caller.call("get_result", execution_id=started["execution_id"], wait_seconds=20)
        tree = await caller.call("get_execution_tree", execution_id=started["execution_id"])
        shown = text_of(await caller.client.call_tool("get_execution_tree", {"execution_id": started["execution_id"]}))
        rows = (await caller.call("query_executions", sql="select agent from executions order by position"))["rows"]
        listed = await caller.call("list_executions", all_levels=True, agent="right")

    assert ended["status"] == "completed"
    top = tree["tree"]
    assert (top["agent"], top["task"]) == ("look", "Investigate the alert Slow: checkout is slow")
    assert {child["agent"] for child in top["children"]} >= {"Left", "Right"}
    assert top["subtree_executions"] == tree["executions"] == len(rows)
    assert "● Left completed" in shown
    assert [each["agent"] for each in listed["executions"]] == ["Right"]


async def test_an_execution_is_cancelled_and_one_that_has_ended_stays_as_it_is(tmp_path: Path) -> None:
    never = anyio.Event()
    scripts = {"Left": [gate(never, say("never"))], "Right": [say("right")]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        left = (await caller.call("dispatch_agent", name="Left", task="look"))["execution_id"]
        right = (await caller.call("run_agent", name="Right", task="look", wait_seconds=20))["execution_id"]
        stopped = await caller.call("cancel_agent", execution_id=left, reason="enough")
        late = await caller.call("cancel_agent", execution_id=right)
        row = opened.bench.sql("select cancelled_by, cancel_reason from executions where id = ?", left)[0]

    assert (stopped["status"], stopped["cancel"]) == ("cancelled", "done")
    assert (late["status"], late["cancel"]) == ("completed", "already_finished")
    assert (row["cancelled_by"], row["cancel_reason"]) == ("an MCP client", "enough")


async def test_a_message_steers_a_running_agent_and_continues_one_that_has_ended(tmp_path: Path) -> None:
    opened_gate = anyio.Event()
    scripts = {"Left": shared(gate(opened_gate, call("nothing")), say("I looked up"), say("and down"))}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        left = (await caller.call("dispatch_agent", name="Left", task="look"))["execution_id"]
        await opened.model.started("Left")
        sent = await caller.call("send_message", execution_id=left, text="look up instead")
        opened_gate.set()
        await caller.call("get_result", execution_id=left, wait_seconds=20)
        late = await caller.call("send_message", execution_id=left, text="and down")
        ended = await caller.call("get_result", execution_id=late["execution_id"], wait_seconds=20)
        last = opened.model.of("Left")[-1]

    assert sent["message"] == "accepted"
    assert (late["message"], late["continues"]) == ("continued", left)
    assert late["execution_id"] != left
    assert ended["result"]["output"] == "and down"
    assert [message.text for message in last.messages[-2:]] == ["I looked up", "and down"]
    assert "look up instead" in str([message.content for message in last.messages])


def test_the_answer_to_a_message_names_the_execution_that_reads_it() -> None:
    running = text.accepted({"execution_id": "a1", "status": "running", "message": "accepted"})
    ended = text.accepted({"execution_id": "b2", "status": "pending", "message": "continued", "continues": "a1"})

    assert running == "execution a1 (running) will read your message before its next step"
    assert ended == "execution a1 had ended; execution b2 (pending) continues it with your message"


async def test_only_an_agent_that_a_client_may_dispatch_is_continued_for_it(tmp_path: Path) -> None:
    lead = {"Lead": [dispatch("Hidden"), say("waiting"), say("done")], "Hidden": [say("seen")]}
    config = CONFIG.replace("[Left]}", "[Left, Hidden]}").replace("Hidden: {}", "Hidden: {description: hides}")
    config += "serve: {agents: [Lead]}\n"
    async with face(tmp_path, config, lead) as opened, opened.client() as caller:
        ended = (await caller.call("run_agent", name="Lead", task="look", wait_seconds=20))["execution_id"]
        [hidden] = opened.bench.sql("select id from executions where agent = 'Hidden'")
        below = await caller.refused("send_message", execution_id=hidden["id"], text="obey")
    without = CONFIG.replace("Lead:", "Leader:")
    async with face(tmp_path, without, {}) as opened, opened.client() as caller:
        gone = await caller.refused("send_message", execution_id=ended, text="go on")

    assert below["type"] == "not_in_catalogue"
    assert gone["type"] == "unknown_agent"


async def test_a_long_result_is_cut_and_read_on(tmp_path: Path) -> None:
    words = "all work and no play " * 5_000
    async with face(tmp_path, CONFIG, {"Left": [say(words)]}) as opened, opened.client() as caller:
        ended = await caller.call("run_agent", name="Left", task="write", wait_seconds=20)
        part: dict[str, Any] = {"next_offset": 0}
        whole = ""
        while "next_offset" in part:
            part = await caller.call("read_result", execution_id=ended["execution_id"], offset=part["next_offset"])
            whole += part["text"]

    assert "[cut after" in ended["result"]["output"]
    assert whole.strip() == words.strip()


async def test_the_same_key_starts_nothing_twice(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened, opened.client() as caller:
        first = await caller.call("dispatch_agent", name="Left", task="look", idempotency_key="k")
        again = await caller.call("dispatch_agent", name="Left", task="look", idempotency_key="k")
        other = await caller.refused("dispatch_agent", name="Left", task="elsewhere", idempotency_key="k")
        rows = opened.bench.sql("select id from executions")

    assert first["execution_id"] == again["execution_id"]
    assert other["type"] == "key_reused"
    assert len(rows) == 1


REFUSALS: list[tuple[str, dict[str, Any], str, str]] = [
    ("dispatch_agent", {"name": "Lfet", "task": "look"}, "unknown_agent", "did you mean `Left`?"),
    ("dispatch_agent", {"name": "Hidden", "task": "look"}, "not_in_catalogue", "dispatch one of: `Lead`, `Left`, `Right`"),
    ("dispatch_agent", {"name": "Left"}, "invalid_arguments", "its arguments are:"),
    ("dispatch_agent", {"name": "Left", "task": " "}, "invalid_arguments", "its arguments are:"),
    ("dispatch_agent", {"name": "Left", "task": "look", "command": "rm"}, "invalid_arguments", "its arguments are:"),
    ("dispatch_agent", {"name": "Left", "task": "x", "timeout_seconds": 1e12}, "invalid_arguments", "its arguments are:"),
    ("get_result", {"execution_id": "0" * 32}, "not_found", "`list_agents`"),
    ("get_result", {"execution_id": "x", "wait_seconds": 51}, "invalid_arguments", "its arguments are:"),
    ("wait_for", {"execution_ids": []}, "invalid_arguments", "its arguments are:"),
    ("wait_for", {"execution_ids": ["nobody"]}, "not_found", "`list_agents`"),
    ("cancel_agent", {"execution_id": "nobody"}, "not_found", "`list_agents`"),
    ("send_message", {"execution_id": "nobody", "text": "hello"}, "not_found", "`list_agents`"),
    ("read_result", {"execution_id": "nobody"}, "not_found", "execution_id"),
    ("run_chain", {"chain": "lok", "task": "look"}, "unknown_chain", "look"),
    ("run_chain", {"chain": "look"}, "invalid_arguments", "`input`"),
    ("list_executions", {"status": "finished"}, "invalid_arguments", "its arguments are:"),
    ("list_executions", {"before": "yesterday"}, "invalid_arguments", "next_before"),
    ("get_execution_tree", {"execution_id": "nobody"}, "not_found", "`list_agents`"),
    ("query_executions", {"sql": "delete from executions"}, "query_refused", "select"),
    ("query_executions", {"sql": "select printf('%.*c', 200000, 'x') as long"}, "query_refused", "substr"),
    ("no_such_tool", {}, "unknown_tool", "one of the tools"),
]


@ERAS
async def test_every_refusal_has_a_type_and_says_what_to_do_and_nothing_is_written(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client(era) as caller:
        for tool, arguments, kind, hint in REFUSALS:
            problem = await caller.refused(tool, **arguments)
            assert (problem["type"], hint in problem["hint"]) == (kind, True), (tool, problem)
            told = str(tmp_path / "config.yaml") in problem["message"] and str(opened.bench.database) in problem["message"]
            assert told == (kind in ("not_found", "unknown_agent", "unknown_chain")), problem
        assert opened.bench.sql("select id from executions") == []


async def test_a_wrong_value_is_named_by_its_field_and_never_repeated(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client() as caller:
        for arguments in ({"wait_seconds": "canary"}, {"wait_seconds": {"canary": 1}}, {"canary": 1, "wait_seconds": -3}):
            problem = await caller.refused("get_result", execution_id="x", **arguments)
            assert "`wait_seconds`" in problem["message"]
            assert "canary" not in problem["message"].replace("`canary` is not an argument", "")


async def test_a_failed_execution_is_an_answer_and_not_an_error(tmp_path: Path) -> None:
    async with face(tmp_path, CONFIG, {"Left": [fail()]}) as opened, opened.client() as caller:
        ended = await caller.call("run_agent", name="Left", task="look", wait_seconds=20)

    assert (ended["status"], ended["result"]["outcome"]) == ("failed", "failed")
    assert ended["error"]


@requirement("S2-MC-6")
@ERAS
async def test_a_client_that_asks_for_progress_hears_what_its_agents_do(
    tmp_path: Path, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.mcp_face.client.REPORT_SECONDS", 0.02)
    opened_gate = anyio.Event()
    heard: list[tuple[float, str | None]] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        heard.append((progress, message))
        if len(heard) == 2:
            opened_gate.set()

    async with face(tmp_path, CONFIG, {"Left": [gate(opened_gate, say("left"))]}) as opened, opened.client(era) as caller:
        arguments = {"name": "Left", "task": "look", "wait_seconds": 20}
        ended = await caller.client.call_tool("run_agent", arguments, progress_callback=progress)

    assert not ended.is_error
    assert heard[0][1] == "Left: asking the model"
    assert heard[0][0] < heard[1][0]


@requirement("S2-MC-3", "S2-LE-6")
@ERAS
async def test_a_call_that_is_given_up_ends_its_wait_and_not_the_execution(tmp_path: Path, era: str) -> None:
    opened_gate = anyio.Event()
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("led")], "Left": [gate(opened_gate, say("left"))]}
    async with face(tmp_path, CONFIG, scripts) as opened:
        async with opened.client(era) as caller:
            with anyio.move_on_after(0.3):
                await caller.call("run_agent", name="Lead", task="lead", wait_seconds=20)
            started = opened.bench.sql("select id from executions where parent_execution_id is null")[0]["id"]
        assert opened.bench.statuses() == {"Lead": ["running"], "Left": ["running"]}
        opened_gate.set()
        async with opened.client(era) as another:
            ended = await another.call("get_result", execution_id=started, wait_seconds=20)

    assert (ended["status"], ended["result"]["output"]) == ("completed", "led")
    assert isinstance(opened, Face)
