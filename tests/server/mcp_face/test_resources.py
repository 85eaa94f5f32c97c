"""Resources, their updates, prompts and completion, in both eras of the protocol."""

import json
from pathlib import Path
from typing import Any

import anyio
import mcp.types as t
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from db.ids import SHORT
from tests.server.mcp_face.test_tools import CONFIG, ERAS
from tests.support.face import face
from tests.support.gates import at_gate
from tests.support.models import call, gate, say
from tests.support.requirement import requirement
from tests.support.shell import SCRIPT, make_shell


async def read(client: Client, uri: str) -> Any:
    """The JSON behind an address."""
    [contents] = (await client.read_resource(uri)).contents
    assert isinstance(contents, t.TextResourceContents)
    assert (contents.uri, contents.mime_type) == (uri, "application/json")
    return json.loads(contents.text)


@ERAS
async def test_an_execution_its_tree_its_transcript_and_the_catalogue_are_resources(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {"Left": [call("nothing"), say("left")]}) as opened, opened.client(era) as caller:
        identifier = (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"]
        templates = (await caller.client.list_resource_templates()).resource_templates
        listed = (await caller.client.list_resources()).resources
        execution = await read(caller.client, f"execution://{identifier}")
        tree = await read(caller.client, f"execution://{identifier}/tree")
        transcript = await read(caller.client, f"execution://{identifier}/transcript")
        catalogue = await read(caller.client, "agents://catalog")

    assert [template.uri_template for template in templates] == [
        "execution://{id}",
        "execution://{id}/tree",
        "execution://{id}/transcript",
        "execution://{id}/plan",
    ]
    assert [resource.uri for resource in listed] == ["agents://catalog", "executions://registry"]
    assert (execution["status"], execution["result"]["output"]) == ("completed", "left")
    assert tree["tree"]["execution_id"] == identifier
    assert [message["role"] for message in transcript["messages"]][:2] == ["user", "assistant"]
    assert [each["tool"] for each in transcript["tool_calls"]] == ["nothing"]
    assert [agent["name"] for agent in catalogue["agents"]] == ["Lead", "Left", "Right", "Synthesizer"]
    assert catalogue["chains"] == [{"name": "look", "description": "looks everywhere", "alert_types": ["Slow"]}]


@requirement("S1-RM-2")
async def test_the_registry_of_delegations_is_a_resource(tmp_path: Path) -> None:
    scripts = {"Lead": [call("dispatch_agent", name="Left", task="look"), say("waiting"), say("done")], "Left": [say("l")]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client() as caller:
        await caller.call("run_agent", name="Lead", task="look", wait_seconds=20)
        told = await read(caller.client, "executions://registry")

    assert (told["active_delegations"], told["total_tracked"]) == (0, 1)
    assert told["delegations"][0]["delegation_path"] == ["Lead", "Left"]


@ERAS
@pytest.mark.parametrize(
    "uri", ["execution://nobody", "execution://nobody/tree", "execution://../x", "agents://other", "x:"]
)
async def test_what_is_not_there_is_told_as_the_era_wants_it(tmp_path: Path, era: str, uri: str) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client(era) as caller:
        with pytest.raises(MCPError) as refused:
            await caller.client.read_resource(uri)

    assert refused.value.error.code == (-32602 if era == "auto" else -32002)
    assert "there is no resource" in refused.value.error.message


async def test_a_modern_client_hears_that_an_execution_has_changed(tmp_path: Path) -> None:
    opened_gate = anyio.Event()
    async with face(tmp_path, CONFIG, {"Left": [gate(opened_gate, say("left"))]}) as opened, opened.client() as caller:
        identifier = (await caller.call("dispatch_agent", name="Left", task="look"))["execution_id"]
        wanted = [f"execution://{identifier}/tree", "execution://nobody"]
        async with caller.client.listen(resource_subscriptions=wanted) as events:
            opened_gate.set()
            async for event in events:
                assert getattr(event, "uri", None) == wanted[0]
                if (await read(caller.client, wanted[0]))["tree"]["status"] == "completed":
                    break


@pytest.mark.parametrize("size", [SHORT, 0], ids=["short", "whole"])
@pytest.mark.filterwarnings("ignore:resources/(un)?subscribe is removed")
async def test_a_client_of_the_older_era_hears_it_over_its_session(tmp_path: Path, size: int) -> None:
    opened_gate, told = anyio.Event(), anyio.Event()
    heard: list[str] = []

    async def listen(message: Any) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            heard.append(message.params.uri)
            told.set()

    scripts = {"Left": [gate(opened_gate, say("left"))]}
    async with face(tmp_path, CONFIG, scripts) as opened, opened.client("legacy", message_handler=listen) as caller:
        identifier = (await caller.call("dispatch_agent", name="Left", task="look"))["execution_id"]
        uri = f"execution://{identifier[-size:]}"
        await caller.client.subscribe_resource(uri)
        with pytest.raises(MCPError):
            await caller.client.subscribe_resource("execution://nobody")
        opened_gate.set()
        await told.wait()
        await caller.client.unsubscribe_resource(uri)

    assert set(heard) == {uri}


@ERAS
async def test_each_chain_is_a_prompt_with_its_fields(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client(era) as caller:
        [prompt] = (await caller.client.list_prompts()).prompts
        made = await caller.client.get_prompt("look", {"task": "is it slow?"})
        for arguments, field in (({"colour": "red"}, "`colour`"), ({}, "`task`"), ({"task": " "}, "`task`")):
            with pytest.raises(MCPError) as refused:
                await caller.client.get_prompt("look", arguments)
            assert field in refused.value.error.message
        with pytest.raises(MCPError):
            await caller.client.get_prompt("nothing")

    assert (prompt.name, prompt.description) == ("look", "looks everywhere")
    assert [field.name for field in prompt.arguments or ()] == ["task", "alert"]
    [message] = made.messages
    assert isinstance(message.content, t.TextContent)
    assert "`run_chain`" in message.content.text
    assert "is it slow?" in message.content.text


@ERAS
async def test_an_id_is_completed_from_the_executions_there_are(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened, opened.client(era) as caller:
        identifier = (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"]
        reference = t.ResourceTemplateReference(uri="execution://{id}")
        found = await caller.client.complete(reference, {"name": "id", "value": identifier[:6]})
        ending = await caller.client.complete(reference, {"name": "id", "value": identifier[-SHORT:]})
        nothing = await caller.client.complete(reference, {"name": "id", "value": "zzz"})

    assert found.completion.values == ending.completion.values == [identifier]
    assert nothing.completion.values == []


async def test_a_subscriber_hears_of_a_tree_that_another_process_runs(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    gate_file = shell.gate("gate")
    serve = {"command": str(SCRIPT), "args": ["serve"], "cwd": shell.folder}
    one = StdioServerParameters(**serve, env=shell.surroundings(GATE=str(gate_file)))
    other = StdioServerParameters(**serve, env=shell.surroundings())
    with anyio.fail_after(40):
        async with Client(one) as working, Client(other) as watching:
            started = await working.call_tool("dispatch_agent", {"name": "Lead", "task": "go"})
            uri = f"execution://{started.structured_content['execution_id'][-SHORT:]}/tree"
            async with watching.listen(resource_subscriptions=[uri]) as events:
                async with at_gate(gate_file):
                    pass
                async for event in events:
                    assert getattr(event, "uri", None) == uri
                    if (await read(watching, uri))["tree"]["status"] == "completed":
                        break
