"""The MCP App of the tree: who is offered it, what its document may hold, and how a view follows a tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import mcp.types as t
import pytest
from mcp.client import Client

from tests.server.mcp_face.test_tools import CONFIG, ERAS, TOOLS
from tests.support.apps import HTML, apps
from tests.support.face import face
from tests.support.models import gate, say
from tests.support.reading import dispatch
from tests.support.shell import Shell
from tests.support.wire import LEGACY, MODERN, introduction, over_http, over_stdio, served_over_http

TREE_VIEW = "ui://outrider/tree"
ONLY_FOR_VIEW = ["follow_tree", "read_execution"]
WITHOUT = {"nothing": (), "another type": (apps("text/plain"),), "no type": (apps(""),)}


async def tools(client: Client) -> dict[str, dict[str, Any]]:
    listed = (await client.list_tools()).tools
    return {tool.name: tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in listed}


async def document(client: Client) -> t.TextResourceContents:
    [contents] = (await client.read_resource(TREE_VIEW)).contents
    assert isinstance(contents, t.TextResourceContents)
    return contents


@ERAS
async def test_a_client_that_shows_views_is_told_which_tools_have_one(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {}) as opened:
        async with opened.client(era, extensions=[apps()]) as caller:
            shown = await tools(caller.client)
            listed = (await caller.client.list_resources()).resources
        async with opened.client(era) as caller:
            plain = await tools(caller.client)

    assert list(shown) == [*TOOLS, *ONLY_FOR_VIEW]
    assert shown["get_execution_tree"].pop("_meta") == {
        "ui": {"resourceUri": TREE_VIEW, "visibility": ["model", "app"]},
        "ui/resourceUri": TREE_VIEW,
    }
    assert [shown[name]["_meta"] for name in ONLY_FOR_VIEW] == [{"ui": {"visibility": ["app"]}}] * 2
    assert {name: tool for name, tool in shown.items() if name not in ONLY_FOR_VIEW} == plain
    [view] = [resource for resource in listed if resource.uri == TREE_VIEW]
    assert (view.mime_type, view.meta) == (HTML, {"ui": {"prefersBorder": True}})


@pytest.mark.parametrize("declared", WITHOUT.values(), ids=WITHOUT)
@ERAS
async def test_other_clients_see_and_call_none_of_it(tmp_path: Path, era: str, declared: Any) -> None:
    async with (
        face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened,
        opened.client(era, extensions=list(declared)) as caller,
    ):
        shown = await tools(caller.client)
        listed = (await caller.client.list_resources()).resources
        execution = (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"]
        refused = [await caller.refused(name, execution_id=execution) for name in ONLY_FOR_VIEW]

    assert list(shown) == TOOLS
    assert not any("_meta" in tool for tool in shown.values())
    assert TREE_VIEW not in [resource.uri for resource in listed]
    assert [problem["type"] for problem in refused] == ["unknown_tool"] * 2


@ERAS
async def test_no_tool_for_a_view_decides_an_approval(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client(era, extensions=[apps()]) as caller:
        shown = await tools(caller.client)

    for name in ONLY_FOR_VIEW:
        assert shown[name]["annotations"]["readOnlyHint"] is True
    assert not [name for name in shown if "approv" in name or "deny" in name or "decide" in name]


@ERAS
async def test_the_view_is_one_document_that_every_client_may_read(tmp_path: Path, era: str) -> None:
    async with face(tmp_path, CONFIG, {}) as opened, opened.client(era) as caller:
        contents = await document(caller.client)

    assert (contents.uri, contents.mime_type, contents.meta) == (TREE_VIEW, HTML, {"ui": {"prefersBorder": True}})
    assert contents.text.startswith("<!doctype html>\n")
    assert (contents.text.count("<script>"), contents.text.lower().count("</script")) == (1, 1)
    assert contents.text.lower().count("</style") == 1
    assert " src=" not in contents.text.partition("<script>")[0]


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_the_view_is_read_over_stdio_and_over_http(shell: Shell, era: str) -> None:
    async with over_stdio(shell, era) as wire:
        local = (await wire.ask("resources/read", {"uri": TREE_VIEW}))["result"]["contents"]
    async with served_over_http(shell) as (_, url), over_http(url, era) as wire:
        remote = (await wire.ask("resources/read", {"uri": TREE_VIEW}))["result"]["contents"]

    assert local == remote
    assert local[0]["mimeType"] == HTML
    assert local[0]["_meta"] == {"ui": {"prefersBorder": True}}


async def test_a_bare_first_handshake_decides_nothing_for_the_next(shell: Shell) -> None:
    declared = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [HTML]}}}
    async with served_over_http(shell) as (_, url), over_http(url, LEGACY) as probe, over_http(url, LEGACY) as wire:
        await probe.ask("tools/list")
        del wire.headers["mcp-session-id"], wire.headers["mcp-protocol-version"]
        greeting = await wire.post({"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": introduction(declared)})
        wire.headers |= {"mcp-session-id": greeting.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
        shown = [tool["name"] for tool in (await wire.ask("tools/list"))["result"]["tools"]]

    assert set(ONLY_FOR_VIEW) <= set(shown)


@ERAS
async def test_a_tree_is_followed_from_its_start_to_its_end(tmp_path: Path, era: str) -> None:
    opened_gate = anyio.Event()
    scripts = {"Lead": [dispatch("Left", "look"), say("waiting"), say("led")], "Left": [gate(opened_gate, say("left"))]}
    async with (
        face(tmp_path, CONFIG, scripts) as opened,
        opened.client(era, extensions=[apps()]) as caller,
        opened.client(era, extensions=[apps()]) as other,
    ):
        top = (await caller.call("dispatch_agent", name="Lead", task="look around"))["execution_id"]
        await opened.model.started("Left")
        waiting = "select 1 from executions where agent = 'Lead' and waiting_for = 'children'"
        await opened.bench.until(lambda: opened.bench.sql(waiting))
        whole = await follow(caller.client, top)
        same = await follow(caller.client, top, after=whole["cursor"], wait_seconds=0)
        changes: list[dict[str, Any]] = []
        async with anyio.create_task_group() as group:

            async def poll() -> None:
                cursor = whole["cursor"]
                while not (changes and changes[-1]["ended"]):
                    changes.append(await follow(other.client, top, after=cursor))
                    cursor = changes[-1]["cursor"]

            group.start_soon(poll, name="the view")
            opened_gate.set()
        told = await caller.call("get_execution_tree", execution_id=top)

    assert [(node["agent"], node["level"], node["status"]) for node in whole["nodes"]] == [
        ("Lead", 0, "running"),
        ("Left", 1, "running"),
    ]
    assert (same["nodes"], same["cursor"], same["executions"]) == ([], whole["cursor"], 2)
    assert {node["agent"] for change in changes for node in change["nodes"]} == {"Lead", "Left"}
    assert {node["id"]: node["status"] for change in changes for node in change["nodes"]}[top] == "completed"
    assert (told["tree"]["execution_id"], told["executions"]) == (top, 2)


async def follow(client: Client, execution: str, **more: Any) -> dict[str, Any]:
    """The answer of `follow_tree`, in the shape of the HTTP API."""
    result = await client.call_tool("follow_tree", {"execution_id": execution, **more})
    assert not result.is_error, result.content
    assert result.content
    answer: dict[str, Any] = json.loads(json.dumps(result.structured_content))
    return answer


@ERAS
async def test_the_parts_of_an_execution_are_read_in_the_shape_of_the_http_api(tmp_path: Path, era: str) -> None:
    async with (
        face(tmp_path, CONFIG, {"Left": [say("left")]}) as opened,
        opened.client(era, extensions=[apps()]) as caller,
    ):
        top = (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"]
        parts = {name: await part(caller.client, top[-6:], name) for name in ("execution", "transcript", "timeline")}
        unknown = await caller.refused("read_execution", id="zzzzzz", part="execution")
        lost = await caller.refused("follow_tree", execution_id="zzzzzz")
        for name, given in (
            ("follow_tree", {"execution_id": top, "after": 2**63}),
            ("read_execution", {"id": top, "part": "transcript", "position": 2**63}),
        ):
            assert (await caller.refused(name, **given))["type"] == "invalid_arguments"

    assert parts["execution"]["node"]["id"] == top
    assert parts["execution"]["result"]["output"] == "left"
    assert parts["transcript"]["messages"][0]["role"] == "user"
    assert parts["timeline"]["id"] == top
    assert unknown["type"] == lost["type"] == "not_found"


async def part(client: Client, execution: str, name: str) -> dict[str, Any]:
    result = await client.call_tool("read_execution", {"id": execution, "part": name})
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content["part"]
    return found
