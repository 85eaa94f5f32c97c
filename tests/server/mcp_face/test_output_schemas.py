"""Whatever a tool answers keeps its own promise: the schema it shows, in success, in error and as the result of a task."""

from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp.types as t
from mcp.client import Client

from tests.server.mcp_face.test_tasks import ended, started, task_client
from tests.server.mcp_face.test_tools import CONFIG, ERAS, REFUSALS, TOOLS
from tests.support.face import face, nulls
from tests.support.models import call, fail, gate, say
from tests.support.reading import dispatch

EVERYTHING = f"""{CONFIG}
users: {{alex: {{name: Alex}}}}
chat: {{agent: Right}}
"""


async def answered(client: Client, schemas: dict[str, Any], tool: str, **arguments: Any) -> t.CallToolResult:
    """The answer of a call, held against the schema of its tool; an error must have nothing that could break it."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        assert result.structured_content is None, tool
        [block] = result.content
        assert isinstance(block, t.TextContent)
        assert block.text.startswith("error: "), tool
        assert "\nhint: " in block.text, tool
        return result
    jsonschema.Draft202012Validator(schemas[tool]).validate(result.structured_content)
    assert tool == "query_executions" or not list(nulls(result.structured_content)), (tool, result.structured_content)
    return result


@ERAS
async def test_every_answer_of_every_tool_keeps_its_schema(tmp_path: Path, era: str) -> None:
    never = anyio.Event()
    summed_up = call("finish", status="partial", summary="only half of it", output="a and b", next_steps=["look again"])
    scripts: dict[str, Any] = {
        "Lead": [dispatch("Left"), say("waiting"), say("led")],
        "Left": [summed_up],
        "Right": [say("right")],
        "SynthesisAgent": [say("both")],
    }
    seen: set[tuple[str, bool]] = set()
    async with face(tmp_path, EVERYTHING, scripts) as opened, opened.client(era) as caller:
        schemas = dict(caller.schemas)

        async def ask(tool: str, **arguments: Any) -> Any:
            result = await answered(caller.client, schemas, tool, **arguments)
            seen.add((tool, bool(result.is_error)))
            return result.structured_content

        led = (await ask("run_agent", name="Lead", task="lead", wait_seconds=20))["execution_id"]
        partial = (await ask("run_agent", name="Left", task="look", budget_usd=1, wait_seconds=20))["execution_id"]
        chain = (await ask("run_chain", chain="look", task="look"))["execution_id"]
        await ask("send_user_message", user="alex", text="hello")
        opened.model.scripts["Left"] = [fail("invalid", "no such model", recoverable=False)]
        failed = (await ask("run_agent", name="Left", task="fail", wait_seconds=20))["execution_id"]
        opened.model.scripts["Left"] = [gate(never, say("never"))]
        running = (await ask("dispatch_agent", name="Left", task="hang"))["execution_id"]
        for each in (led, partial, chain, failed):
            await ask("get_result", execution_id=each, wait_seconds=20)
            await ask("get_execution_tree", execution_id=each)
            await ask("read_result", execution_id=each, limit=2)
        await ask("get_result", execution_id=running, wait_seconds=0)
        await ask("wait_for", execution_ids=[led, partial, chain, failed, running], wait_seconds=0)
        await ask("send_message", execution_id=running, text="hurry")
        await ask("cancel_agent", execution_id=running)
        await ask("get_result", execution_id=running)
        await ask("send_message", execution_id=led, text="go on")
        await ask("list_agents")
        await ask("list_executions", limit=2)
        await ask("list_executions", all_levels=True, limit=100)
        await ask("query_executions", sql="select * from executions")
        for tool, arguments, _, _ in REFUSALS:
            await ask(tool, **arguments)
        await ask("list_agents", all=True)
        await ask("send_user_message", user="nobody", text="hello")
        await ask("run_agent", name="Nobody", task="look")

    assert {tool for tool, error in seen if not error} == {*TOOLS, "send_user_message"}
    assert {tool for tool, error in seen if error} == {*TOOLS, "send_user_message", "no_such_tool"}


async def test_the_result_of_a_task_keeps_the_schema_of_the_tool_that_was_called(tmp_path: Path) -> None:
    scripts: dict[str, Any] = {"Left": [say("left")], "Right": [fail()], "SynthesisAgent": [say("both")]}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("dispatch_agent", {"name": "Left", "task": "look"}),
        ("run_agent", {"name": "Left", "task": "look"}),
        ("run_agent", {"name": "Right", "task": "fail"}),
        ("run_chain", {"chain": "look", "task": "look"}),
    ]
    async with face(tmp_path, CONFIG, scripts) as opened, task_client(opened) as (client, tasks):
        schemas = {tool.name: tool.output_schema or {} for tool in (await client.list_tools()).tools}
        for tool, arguments in calls:
            task = await started(client, tasks, tool, **arguments)
            result = (await ended(client, task))["result"]
            jsonschema.Draft202012Validator(schemas[tool]).validate(result["structuredContent"])
            assert not list(nulls(result["structuredContent"])), tool
