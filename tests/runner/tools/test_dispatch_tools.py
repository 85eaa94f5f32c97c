"""The dispatch tools as a model sees them: names, schemas, answers and error texts."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp.types
import pytest
from mcp.client import Client
from mcp.server.lowlevel import Server

from runner.errors import Refusal
from runner.messages import Tool, ToolCall
from runner.service.order import Order
from runner.snapshot import DispatchOrder, Snapshot
from runner.tools import dispatch as dispatch_module
from runner.tools.builtin import OwnTools
from runner.tools.dispatch import ASK_FOR_IT, dispatch_answer, dispatch_tools
from server.app import Blueprint, open_service
from tests.support.messages_api import messages_api, reply, text
from tests.support.models import call, gate, malformed_call, say
from tests.support.reading import answer, dispatch, dispatched, results
from tests.support.requirement import requirement
from tests.support.service import bench, settings_of
from tests.support.sources import PACKAGES, python_files, text_of

CONFIG = """
agents:
  Lead: {sub_agents: [Log-Analyzer, Right]}
  Log-Analyzer: {description: reads logs}
  Right: {description: looks right}
"""


@pytest.fixture
async def tools(tmp_path: Path) -> dict[str, Tool]:
    """The tools of an orchestrator without servers."""
    async with bench(tmp_path, CONFIG, {"Lead": [say("nothing to do")]}) as service:
        await service.run("Lead")
        return {tool.name: tool for tool in service.model.requests[0].tools}


@requirement("S2-TL-1", "S2-CX-2")
async def test_the_dispatch_tools_have_these_names_and_each_is_spelt_in_one_place(tools: dict[str, Tool]) -> None:
    assert list(tools)[:5] == ["dispatch_agent", "get_result", "wait_for", "cancel_agent", "list_agents"]
    quoted = [f'"{name}"' for name in dispatch_module.NAMES]
    texts = [text_of(file) or "" for package in PACKAGES for file in python_files(package)]
    assert [sum(text.count(name) for text in texts) for name in quoted] == [1] * 5


@requirement("S2-TL-2", "S2-TL-3", "S2-TL-4", "S2-TL-5")
async def test_their_schemas_say_what_is_required_and_allowed(tools: dict[str, Tool]) -> None:
    schemas = {name: dict(tool.input_schema) for name, tool in tools.items()}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False

    assert schemas["dispatch_agent"]["required"] == ["name", "task"]
    assert {schemas["dispatch_agent"]["properties"][name]["type"] for name in ("name", "task")} == {"string"}
    assert "asynchronous" in tools["dispatch_agent"].description
    assert "execution_id" in tools["dispatch_agent"].description
    wait = schemas["get_result"]["properties"]["wait_seconds"]
    assert schemas["get_result"]["required"] == ["execution_id"]
    assert (wait["minimum"], wait["maximum"], wait["default"]) == (0, 50, 25)
    assert schemas["wait_for"]["properties"]["mode"]["enum"] == ["any", "all"]
    assert schemas["cancel_agent"]["required"] == ["execution_id"]
    assert schemas["cancel_agent"]["properties"]["reason"]["maxLength"] == 500
    assert schemas["list_agents"]["properties"] == {}


@requirement("S2-TL-6")
async def test_models_and_mcp_clients_are_shown_one_and_the_same_definition(tmp_path: Path) -> None:
    async with messages_api(reply(text("nothing to do"))) as api:
        config = f"models: {{m: {{model: some-model, base_url: '{api.url}'}}}}\n{textwrap.dedent(CONFIG)}"
        settings = settings_of(tmp_path, config)
        blueprint = Blueprint(settings, tmp_path / "outrider.db", environ={"ANTHROPIC_API_KEY": "canary"})
        async with open_service(blueprint) as dispatcher:
            started = await dispatcher.start(Order("Lead"))
            with anyio.fail_after(10):
                await dispatcher.wait(started.id)
    sent = {tool["name"]: tool for tool in api.requests[0].body["tools"]}

    offered = OwnTools(dispatch_tools(Nobody()))

    async def list_tools(*_: Any) -> mcp.types.ListToolsResult:
        definitions = await offered.list_tools()
        return mcp.types.ListToolsResult(
            tools=[
                mcp.types.Tool(name=each.name, description=each.description, input_schema=dict(each.input_schema))
                for each in definitions
            ]
        )

    async def call_tool(_: Any, params: mcp.types.CallToolRequestParams) -> mcp.types.CallToolResult:
        told = await offered.call(ToolCall("1", params.name, params.arguments or {}))
        content = mcp.types.TextContent(type="text", text=told.text)
        return mcp.types.CallToolResult(content=[content], is_error=told.is_error)

    server = Server("a face", on_list_tools=list_tools, on_call_tool=call_tool)
    async with Client(server, mode="legacy") as client:  # over JSON, as over a wire
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        refused = await client.call_tool("dispatch_agent", {"name": "Right", "task": "t", "model": "other"})

    assert list(listed) == list(dispatch_module.NAMES)
    for name, tool in listed.items():
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.input_schema["additionalProperties"] is False
        shown = {key: sent[name][key] for key in ("name", "description", "input_schema")}
        assert {"name": name, "description": tool.description, "input_schema": tool.input_schema} == shown
    assert refused.is_error
    assert "`model` is not an argument of this tool" in str(refused.content)


@requirement("S2-TL-6")
async def test_every_argument_is_described_and_every_schema_takes_what_it_says(tools: dict[str, Tool]) -> None:
    arguments: dict[str, dict[str, Any]] = {
        "dispatch_agent": {
            "name": "Right",
            "task": "t",
            "context": "c",
            "timeout_seconds": 1.5,
            "budget_usd": 0.5,
            "idempotency_key": "k",
        },
        "get_result": {"execution_id": "x", "wait_seconds": 0},
        "wait_for": {"execution_ids": ["x"], "mode": "any", "wait_seconds": 50},
        "cancel_agent": {"execution_id": "x", "reason": "r", "mode": "wrap_up"},
        "list_agents": {},
    }
    offered = OwnTools(dispatch_tools(Nobody()))
    for name, given in arguments.items():
        schema = dict(tools[name].input_schema)
        validator = jsonschema.Draft202012Validator(schema)
        assert set(schema["properties"]) == set(given)
        assert all(each["description"] for each in schema["properties"].values())
        assert validator.is_valid(given)
        assert (await offered.call(ToolCall("1", name, given))).error_type != "invalid_arguments"
        for wrong in ({**given, "model": "x"}, *({**given, key: [{}]} for key in given)):
            assert not validator.is_valid(wrong), (name, wrong)
            assert (await offered.call(ToolCall("1", name, wrong))).error_type == "invalid_arguments"


class Nobody:
    """A caller without agents and children."""

    catalogue = ()

    async def dispatch(self, order: DispatchOrder) -> tuple[Snapshot, bool]:
        """Refuse."""
        raise Refusal("unknown_agent", f"there is no agent `{order.name}`", "there is nobody to dispatch")

    async def look(self, child: str) -> Snapshot | None:
        """Nothing to see."""
        return None

    async def children(self) -> Sequence[Snapshot]:
        """None."""
        return []

    async def subtree_usage(self, children: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        """Nothing was used."""
        return {}

    async def stop(self, child: str, reason: str, *, wrap_up: bool) -> str:
        """Nothing to stop."""
        return "already_finished"

    async def until_one_ends(self, children: Sequence[str]) -> None:
        """At once."""

    def claim(self, child: str) -> str | None:
        """Nothing to hand over."""
        return None

    def unread(self) -> Sequence[str]:
        """Nothing is."""
        return ()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("get_result", {"execution_id": "x", "wait_seconds": 51}, "`wait_seconds`"),
    ("cancel_agent", {"execution_id": "x", "reason": "r" * 501}, "`reason`"),
    ("dispatch_agent", {"name": "Right", "task": "t", "model": "other"}, "`model` is not an argument of this tool"),
    ("dispatch_agent", {"task": "t"}, "`name` is required"),
    ("dispatch_agent", {"name": "Right"}, "`task` is required"),
    ("dispatch_agent", {"name": "Right", "task": "   "}, "`task`"),
    ("dispatch_agent", {"name": " ", "task": "t"}, "`name`"),
    ("dispatch_agent", {"name": 7, "task": "t"}, "`name`"),
    ("list_agents", {"all": True}, "`all` is not an argument of this tool"),
]


@requirement("S2-TL-3", "S2-TL-4", "S2-TL-8")
@pytest.mark.parametrize(("tool", "arguments", "named"), REFUSED)
async def test_wrong_arguments_are_refused_by_name(
    tmp_path: Path, tool: str, arguments: dict[str, Any], named: str
) -> None:
    async with bench(tmp_path, CONFIG, {"Lead": [call(tool, **arguments), say("I see")]}) as service:
        assert (await service.run("Lead")).status == "completed"

        told = results(service.model.requests[1])[0]
        assert told["is_error"]
        assert named in told["content"]
        assert told["content"].startswith("error: ")
        assert "\nhint: its arguments are: " in told["content"]
        assert service.sql("select error_type from tool_calls") == [{"error_type": "invalid_arguments"}]
        assert len(service.sql("select id from executions")) == 1


@requirement("S2-TL-8")
async def test_an_error_says_what_was_wrong_and_what_to_do_next(tmp_path: Path) -> None:
    wrong = (
        malformed_call("dispatch_agent", '{"name": "Ri')
        + dispatch("Log-Analyser")
        + call("get_result", execution_id="nope")
    )
    async with bench(tmp_path, CONFIG, {"Lead": [wrong, say("I see")]}) as service:
        await service.run("Lead")

        assert [block["content"] for block in results(service.model.requests[1])] == [
            "error: the arguments of `dispatch_agent` are not a JSON object\nhint: send one object",
            (
                "error: there is no agent `Log-Analyser`\n"
                "hint: did you mean `Log-Analyzer`? the agents you may dispatch: `Log-Analyzer`, `Right`"
            ),
            "error: you have not dispatched an execution `nope`\nhint: `list_agents` lists those you have",
        ]


@requirement("S2-TL-5")
async def test_list_agents_gives_the_agents_and_the_executions_of_the_caller(tmp_path: Path) -> None:
    opened = anyio.Event()
    scripts = {
        "Lead": [
            call("list_agents"),
            dispatch("Right", "a") + dispatch("Right", "b"),
            call("list_agents"),
            say("so"),
            say("done"),
        ],
        "Right": [gate(opened, say("right"))],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        started = await service.dispatcher.start(Order("Lead"))
        with anyio.fail_after(5):
            fourth = await service.model.started("Lead", 4)
            opened.set()
            await service.dispatcher.wait(started.id)

        before, after = answer(service.model.of("Lead")[1]), answer(fourth)
        assert [each["name"] for each in before["agents"]] == ["Log-Analyzer", "Right"]
        assert before["executions"] == []
        assert [(each["agent"], each["task"]) for each in after["executions"]] == [("Right", "a"), ("Right", "b")]
        assert [each["execution_id"] for each in after["executions"]] == dispatched(fourth)
        assert all(each["status"] in ("pending", "running") for each in after["executions"])
        assert all(each["elapsed_seconds"] >= 0 for each in after["executions"])


@requirement("S2-TL-7")
async def test_a_dispatch_answers_with_an_id_and_a_warning_not_to_guess(tmp_path: Path) -> None:
    config = CONFIG.replace("Right]", "Right], max_concurrent_agents: 1")
    scripts = {"Lead": [dispatch("Right") + dispatch("Right"), say("waiting"), say("done")], "Right": [say("right")]}
    async with bench(tmp_path, config, scripts) as service:
        await service.run("Lead")

        first, second = dispatched(service.model.of("Lead")[1])
        note = (
            "It works in the background. Its result will be given to you by itself; you do not have the result yet. "
            "Do not guess it, and do not finish before it is there."
        )
        told = {"execution_id": first, "agent": "Right", "status": "running", "note": note}
        queued = {"execution_id": second, "agent": "Right", "status": "pending", "queue_position": 1, "note": note}
        request = service.model.of("Lead")[1]
        assert [answer(request, 0), answer(request, 1)] == [told, queued]
        rows = service.sql("select id from executions where depth = 1 order by position")
        assert [row["id"] for row in rows] == [first, second]


@requirement("S2-TL-7")
def test_a_caller_without_an_inbox_is_told_to_ask_for_the_result() -> None:
    child = Snapshot("0x", "Right", "look", "pending", queue_position=2)

    told = dispatch_answer(child, ASK_FOR_IT)

    assert told == {
        "execution_id": "0x",
        "agent": "Right",
        "status": "pending",
        "queue_position": 2,
        "note": "You do not have the result yet, so do not guess it. Call get_result for its result.",
    }


@requirement("S2-TL-9")
async def test_agent_names_compare_without_case_dash_and_underscore(tmp_path: Path) -> None:
    scripts = {
        "Lead": [dispatch("log_analyzer") + dispatch("LOG-ANALYZER"), say("so"), say("done")],
        "Log-Analyzer": [say("ok")],
    }
    async with bench(tmp_path, CONFIG, scripts) as service:
        await service.run("Lead")

        assert service.statuses() == {"Lead": ["completed"], "Log-Analyzer": ["completed", "completed"]}
