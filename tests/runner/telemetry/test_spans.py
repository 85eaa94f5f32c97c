"""Spans at a real receiver: one trace for each tree, nested as `parent_execution_id`, whatever happens to the tree."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from runner.llm.protocol import Usage
from runner.service.order import Order
from runner.telemetry import names
from tests.support.models import call, fail, gate, hang, say
from tests.support.otlp import Receiver, Sent, receiving
from tests.support.reading import dispatch, results, text_of
from tests.support.servers import sdk_server
from tests.support.service import Bench, bench
from tests.support.shell import make_shell

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, CALLER = PARENT.split("-")[1:3]
CONFIG = """
models: {sonnet: {model: claude-sonnet-5-5, price: {input: 2, output: 10, cache_read: 0.2, cache_write: 2.5}}}
agents:
  Lead: {description: leads, sub_agents: [Worker, Broken]}
  Worker: {description: works}
  Broken: {description: fails}
"""
SCRIPTS: Mapping[str, Any] = {
    "Lead": [dispatch("Worker"), say("waiting"), say("done").using(Usage(7, 3, 100, 20))],
    "Worker": [say("42")],
}


@asynccontextmanager
async def traced(
    folder: Path, scripts: Mapping[str, Any], more: str = "", config: str = CONFIG
) -> AsyncIterator[tuple[Bench, Receiver]]:
    """A service that sends its traces to a receiver. The spans are complete once it is closed."""
    with receiving(folder) as receiver:
        section = f"telemetry: {{endpoint: {receiver.url}{more}}}\n"
        async with bench(folder, config + section, scripts) as service:
            yield service, receiver


def nesting(service: Bench) -> dict[str, str | None]:
    """The parent of each execution, as the rows say."""
    return {row["id"]: row["parent_execution_id"] for row in service.sql("select id, parent_execution_id from executions")}


def total(spans: list[Sent], name: str) -> float:
    """The sum of an attribute."""
    return float(sum(span["attributes"].get(name, 0) for span in spans))


def test_the_demo_is_one_trace_that_nests_as_its_tree_and_counts_as_sql(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver:
        shell = make_shell(tmp_path)
        done = shell.type(
            "demo", fresh=False, **receiver.environ, OTEL_SERVICE_NAME="sre", OTEL_RESOURCE_ATTRIBUTES="team=core"
        )
        assert done.returncode == 0, done.stderr
        spans, chats = receiver.spans, receiver.of(names.CHAT)
        nested = receiver.nesting()

    rows = {row["id"]: row for row in shell.rows("select * from executions")}
    assert len({span["trace"] for span in spans}) == 1
    assert nested == {row["id"]: row["parent_execution_id"] for row in rows.values()}
    (used,) = shell.rows(
        "select count(*) as calls, sum(input_tokens + cache_read_tokens + cache_write_tokens) as input,"
        " sum(output_tokens) as output, sum(cost_usd) as cost from model_calls"
    )
    told = total(chats, names.INPUT_TOKENS), total(chats, names.OUTPUT_TOKENS), total(chats, names.COST)
    assert (len(chats), *told) == (used["calls"], used["input"], used["output"], used["cost"])
    tools = [span for span in receiver.of(names.EXECUTE_TOOL) if span["attributes"][names.TOOL] != "finish"]
    assert len(tools) == shell.rows("select count(*) as n from tool_calls")[0]["n"]
    for span in spans:
        assert (span["path"], span["schema"], span["failed"]) == ("/v1/traces", names.SCHEMA, False)
        assert span["resource"] | {"service.name": "sre", "team": "core"} == span["resource"]
        assert span["start"] <= span["end"]


async def test_spans_have_the_names_and_kinds_of_the_conventions(tmp_path: Path) -> None:
    async with traced(tmp_path, SCRIPTS) as (service, receiver):
        root = await service.run("Lead")
        price = service.sql("select sum(cost_usd) as usd from model_calls where execution_id = ?", root.id)[0]["usd"]

    shape = {(span["name"], span["kind"]) for span in receiver.spans}
    chat = "chat claude-sonnet-5-5"
    agents = {(f"invoke_agent {name}", "INTERNAL") for name in ("Lead", "Worker")}
    assert shape == {*agents, (chat, "CLIENT"), ("execute_tool dispatch_agent Worker", "INTERNAL")}
    lead, tool = receiver.named("invoke_agent Lead"), receiver.named("execute_tool dispatch_agent Worker")
    worker = receiver.named("invoke_agent Worker")
    assert worker["links"] == [{"trace": tool["trace"], "id": tool["id"]}]
    assert (worker["parent"], tool["parent"], lead["parent"]) == (lead["id"], lead["id"], "")
    assert (
        tool["attributes"]
        | {
            names.AGENT: "Lead",
            names.TRANSFER_TARGET: "Worker",
            names.TRANSFER_MODE: "return_to_caller",
        }
        == tool["attributes"]
    )
    told = lead["attributes"]
    assert (told[names.CONVERSATION], told[names.STATUS], told[names.OUTCOME]) == (root.id, "completed", "completed")
    assert (told[names.INPUT_TOKENS], told[names.OUTPUT_TOKENS], told[names.COST]) == (147, 13, pytest.approx(price))
    last = max((span for span in receiver.of(names.CHAT) if span["parent"] == lead["id"]), key=lambda span: span["end"])
    usage = {names.INPUT_TOKENS: 127, names.CACHE_READ_TOKENS: 100, names.CACHE_WRITE_TOKENS: 20, names.OUTPUT_TOKENS: 3}
    assert last["attributes"] | usage | {names.RESPONSE_FINISH_REASONS: ["end_turn"]} == last["attributes"]


async def test_a_failure_a_timeout_and_a_cancel_end_their_spans(tmp_path: Path) -> None:
    scripts = {
        "Lead": [dispatch("Broken") + call("no_such_tool"), say("waiting"), say("done")],
        "Broken": [fail("overloaded", "the secret reason")],
        "Worker": lambda _: hang(),
    }
    async with traced(tmp_path, scripts) as (service, receiver):
        await service.run("Lead")
        (row,) = service.sql("select error_type from executions where agent = 'Broken'")
        await service.run("Worker", timeout=0.2)
        started = await service.dispatcher.start(Order("Worker", "wait"))
        await service.model.started(started.id)
        await service.dispatcher.cancel(started.id, "a person", "no more")
        await service.ended(started.id)

    broken = receiver.named("invoke_agent Broken")
    assert (broken["failed"], broken["attributes"][names.ERROR]) == (True, row["error_type"])
    (asked,) = [span for span in receiver.of(names.CHAT) if span["parent"] == broken["id"]]
    assert (asked["failed"], asked["attributes"][names.ERROR]) == (True, "overloaded")
    unknown = receiver.named("execute_tool")
    assert (unknown["failed"], unknown["attributes"][names.ERROR]) == (True, "unknown_tool")
    ends = {span["attributes"][names.STATUS]: span for span in receiver.executions().values()}
    assert (ends["timed_out"]["failed"], ends["timed_out"]["attributes"][names.ERROR]) == (True, "timeout")
    assert not ends["cancelled"]["failed"]
    (cut,) = [span for span in receiver.of(names.CHAT) if span["parent"] == ends["cancelled"]["id"]]
    assert cut["attributes"][names.CANCELLED] is True
    assert "secret reason" not in json.dumps(receiver.spans)


async def test_the_trace_of_a_caller_goes_on_through_the_tree_into_its_servers(tmp_path: Path) -> None:
    config = f"""
mcp_servers: {{meta: {sdk_server("meta")}}}
agents:
  Lead: {{description: leads, sub_agents: [Left]}}
  Left: {{description: x, mcp_servers: [meta]}}
"""
    scripts = {"Lead": [dispatch("Left"), say("waiting"), say("done")], "Left": [call("meta__poke"), say("left")]}
    async with traced(tmp_path, scripts, config=config) as (service, receiver):
        sent = {"traceparent": PARENT, "tracestate": "vendor=a1", "baggage": "user=ada"}
        started = await service.dispatcher.start(Order("Lead", "look", trace=sent))
        await service.ended(started.id)
        (said,) = [json.loads(text_of(block)) for block in results(service.model.of("Left")[-1])]
        (kept,) = service.sql("select trace_context from executions where parent_execution_id is null")

    tool = receiver.named("execute_tool meta.poke")
    assert said["traceparent"] == f"00-{TRACE}-{tool['id']}-01"
    assert (said["tracestate"], said["baggage"]) == ("vendor=a1", "user=ada")
    assert receiver.named("invoke_agent Lead")["parent"] == CALLER
    assert {span["trace"] for span in receiver.spans} == {TRACE}
    assert json.loads(kept["trace_context"]) == sent
    wire = {names.MCP_METHOD: "tools/call", names.TRANSPORT: "pipe", names.SERVER: "meta"}
    assert tool["attributes"] | wire == tool["attributes"]
    assert tool["attributes"][names.MCP_PROTOCOL]


async def test_a_caller_that_is_not_sampled_is_not_recorded_and_its_context_goes_on(tmp_path: Path) -> None:
    config = f"mcp_servers: {{meta: {sdk_server('meta')}}}\nagents: {{Left: {{description: x, mcp_servers: [meta]}}}}\n"
    async with traced(tmp_path, {"Left": [call("meta__poke"), say("left")]}, config=config) as (service, receiver):
        started = await service.dispatcher.start(Order("Left", "look", trace={"traceparent": PARENT[:-2] + "00"}))
        await service.ended(started.id)
        (said,) = [json.loads(text_of(block)) for block in results(service.model.of("Left")[-1])]
    assert said["traceparent"].startswith(f"00-{TRACE}-")
    assert said["traceparent"].endswith("-00")
    assert receiver.spans == []


CONTENT = (
    names.SYSTEM_INSTRUCTIONS,
    names.INPUT_MESSAGES,
    names.OUTPUT_MESSAGES,
    names.TOOL_ARGUMENTS,
    names.TOOL_RESULT,
)


@pytest.mark.parametrize("wanted", [False, True])
async def test_content_is_sent_only_where_it_is_asked_for_and_then_masked(tmp_path: Path, wanted: bool) -> None:
    with receiving(tmp_path) as receiver:
        config = (
            "mcp_servers: {unused: {command: ['true'], env: {TOKEN: '${OUR_TOKEN}'}}}\n"
            f"{CONFIG}\ntelemetry: {{endpoint: {receiver.url}, content: {str(wanted).lower()}}}\n"
        )
        scripts = {**SCRIPTS, "Worker": [say("the token is tok-93xfw7-secret")]}
        async with bench(tmp_path, config, scripts, environ={"OUR_TOKEN": "tok-93xfw7-secret"}) as service:
            await service.run("Lead", "a task with words")

    sent = json.dumps(receiver.spans)
    found = {name for span in receiver.spans for name in span["attributes"] if name in CONTENT}
    assert found == (set(CONTENT) if wanted else set())
    assert ("a task with words" in sent) is wanted
    assert "tok-93xfw7-secret" not in sent
    if wanted:
        worker = receiver.named("invoke_agent Worker")
        (asked,) = [span for span in receiver.of(names.CHAT) if span["parent"] == worker["id"]]
        (answer,) = json.loads(asked["attributes"][names.OUTPUT_MESSAGES])
        assert (answer["role"], answer["finish_reason"]) == ("assistant", "end_turn")
        assert answer["parts"][0]["content"].startswith("the token is ")


@pytest.mark.parametrize("kind", ["away", "slow"])
async def test_a_receiver_that_is_away_or_hangs_delays_no_execution_and_no_end(tmp_path: Path, kind: str) -> None:
    opened = anyio.Event()
    with receiving(tmp_path, slow=True) as receiver:
        address = receiver.url if kind == "slow" else "http://127.0.0.1:9"
        config = f"{CONFIG}\ntelemetry: {{endpoint: '{address}'}}\n"
        scripts = {"Worker": [gate(opened, say("42"))]}
        with anyio.fail_after(15):
            async with bench(tmp_path, config, scripts) as service:
                started = await service.dispatcher.start(Order("Worker", "work"))
                opened.set()
                with anyio.fail_after(5):
                    assert (await service.dispatcher.wait(started.id)).status == "completed"
