"""The MCP App of the tree in a host of another origin, through the official bridge, under the strictest policy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from db.ids import new_id
from db.store.engine import sqlite_library
from tests.server.mcp_face.test_tools import CONFIG
from tests.support.apps import apps
from tests.support.face import Caller, Face, face
from tests.support.models import gate, say
from tests.support.reading import dispatch
from tests.web.hostile import NAME, QUIET_NAMES, SECRET, config, scripts
from tests.web.reference_host import HostAddresses, OpenedView, host_addresses, opened_view
from tests.web.windows import Windows


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostAddresses]:
    with host_addresses(tmp_path_factory.mktemp("host")) as served:
        yield served


@asynccontextmanager
async def showing(
    folder: Path, windows: Windows, addresses: HostAddresses, scripts: dict[str, Any], **more: Any
) -> AsyncIterator[tuple[Face, Caller, OpenedView]]:
    """A service, a client that shows views, and the view in its host."""
    async with (
        face(folder, CONFIG, scripts) as opened,
        opened.client(within=90, extensions=[apps()]) as caller,
        opened_view(windows, addresses, caller.client, **more) as view,
    ):
        yield opened, caller, view


def row(execution: str, status: str) -> str:
    return f'[data-execution="{execution}"][data-status="{status}"]'


async def test_the_handshake_tells_what_the_view_is_and_can(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    async with showing(tmp_path, windows, addresses, {}) as (_, _, view):
        [said] = await view.heard("initialized")
        calls = await view.heard("call")

    assert said["about"]["name"] == "outrider"
    assert said["can"] == {"availableDisplayModes": ["inline", "fullscreen"]}
    assert calls == []


async def test_a_tree_is_watched_to_its_end_without_another_call_of_the_model(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    opened_gate = anyio.Event()
    scripts = {"Lead": [dispatch("Left", "look"), say("waiting"), say("led")], "Left": [gate(opened_gate, say("left"))]}
    async with showing(tmp_path, windows, addresses, scripts) as (opened, caller, view):
        top = (await caller.call("dispatch_agent", name="Lead", task="look around"))["execution_id"]
        await opened.model.started("Left")
        await view.show(caller.client, top)
        await view.until(row(top, "running"))
        opened_gate.set()
        await view.until(row(top, "completed"))
        calls = await view.heard("call")

    assert set(calls) <= {"follow_tree", "read_execution"}


async def test_theme_variables_and_space_of_the_host_are_followed(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    colours = {"--color-background-primary": "rgb(1, 2, 3)", "--color-text-primary": "rgb(250, 251, 252)"}
    dark = {"theme": "dark", "styles": {"variables": {**colours, "--font-mono": "Host Mono"}}}
    look = """() => { const style = getComputedStyle(document.documentElement);
        return [style.colorScheme, style.backgroundColor, style.color, style.getPropertyValue("--mono")]; }"""
    async with showing(tmp_path, windows, addresses, {}) as (_, _, view):
        before = await view.frame.evaluate(look)
        await view.host("context", dark)
        await view.until('html[data-theme="dark"]')
        after = await view.frame.evaluate(look)
        await view.host("context", {"theme": "light", "styles": {"variables": {}}})
        await view.until('html[data-theme="light"]')
        again = await view.frame.evaluate(look)

    assert before[0] == "light"
    assert after == ["dark", "rgb(1, 2, 3)", "rgb(250, 251, 252)", "Host Mono"]
    assert again == before


async def test_the_host_is_told_the_size_and_each_change_of_it(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    async with showing(tmp_path, windows, addresses, {}) as (_, _, view):
        [first, *_] = await view.until_heard("size")
        await view.host("context", {"containerDimensions": {"width": 900, "maxHeight": 300}})
        told = await view.until_heard("size", 2)

    assert first[1] == 560
    assert told[-1][1] == 300
    assert len(told) == 2


async def test_a_display_mode_is_asked_for_and_a_host_without_it_is_not(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    larger = "[data-action=fullscreen]"
    async with showing(tmp_path, windows, addresses, {}) as (_, _, view):
        await view.frame.click(larger)
        await view.until('html[data-display="fullscreen"]')
        asked = await view.heard("mode")
        await view.host("context", {"displayMode": "inline", "availableDisplayModes": ["inline"]})
        await view.frame.wait_for_selector(larger, state="hidden")

    assert asked == ["fullscreen"]


async def test_an_execution_is_cancelled_from_the_view(tmp_path: Path, windows: Windows, addresses: HostAddresses) -> None:
    async with showing(tmp_path, windows, addresses, {"Right": [gate(anyio.Event(), say("right"))]}) as (
        opened,
        caller,
        view,
    ):
        top = (await caller.call("dispatch_agent", name="Right", task="look"))["execution_id"]
        await opened.model.started("Right")
        await view.show(caller.client, top)
        await cancel(view, top)
        await view.until(row(top, "cancelled"))
        calls = await view.heard("call")
        [told] = opened.bench.sql("select status, cancelled_by from executions")

    assert calls.count("cancel_agent") == 1
    assert (told["status"], told["cancelled_by"]) == ("cancelled", "an MCP client")


async def cancel(view: OpenedView, execution: str) -> None:
    await view.frame.click(f'[data-execution="{execution}"]')
    await view.frame.click("[data-action=cancel] >> nth=0")
    await view.frame.click("[data-confirm=cancel]")


async def test_a_view_answers_its_teardown_and_then_asks_nothing_more(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    opened_gate = anyio.Event()
    async with showing(tmp_path, windows, addresses, {"Right": [gate(opened_gate, say("right"))]}) as (
        opened,
        caller,
        view,
    ):
        top = (await caller.call("dispatch_agent", name="Right", task="look"))["execution_id"]
        await opened.model.started("Right")
        await view.show(caller.client, top)
        await view.until(row(top, "running"))
        answer = await view.host("teardown")
        calls = len(await view.heard("call"))
        opened_gate.set()
        await caller.call("get_result", execution_id=top, wait_seconds=20)

        assert answer == {}
        assert len(await view.heard("call")) == calls
        assert len(view.page.frames) == 1


async def test_a_cancelled_call_and_a_failed_one_are_said_in_words(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    async with showing(tmp_path, windows, addresses, {}) as (_, caller, view):
        await view.host("input", {"execution_id": "zzzzzz"})
        await view.host("cancelled", "the user said stop")
        await view.until('#app[data-state="cancelled"]')
        cancelled = await view.frame.inner_text("#app")
        failed = await caller.client.call_tool("get_execution_tree", {"execution_id": "zzzzzz"})
        await view.host("result", failed.model_dump(by_alias=True, mode="json", exclude_none=True))
        await view.until('#app[data-state="error"]')
        words = await view.frame.inner_text("#app")

    assert "The call was cancelled: the user said stop" in cancelled
    assert "zzzzzz" in words


async def test_a_host_that_calls_no_tools_for_a_view_shows_what_the_model_was_told(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    scripts = {"Lead": [dispatch("Left", "look"), say("waiting"), say("led")], "Left": [say("left")]}
    async with showing(tmp_path, windows, addresses, scripts, capabilities={}) as (opened, caller, view):
        top = (await caller.call("run_agent", name="Lead", task="look around", wait_seconds=20))["execution_id"]
        await view.show(caller.client, top)
        for found in opened.bench.sql("select id from executions"):
            await view.until(row(found["id"], "completed"))
        calls = await view.heard("call")

    assert calls == []


HOSTILE = (
    "<img src=x onerror='parent.postMessage({jsonrpc:`2.0`,id:1,result:{}},`*`);globalThis.executed=1'>",
    "</script><script>globalThis.executed=1</script>",
    "<svg/onload=globalThis.executed=1>",
    "javascript:globalThis.executed=1",
    "${globalThis.executed=1}",
    "<!--<script>",
)


async def test_hostile_texts_stay_texts(tmp_path: Path, windows: Windows, addresses: HostAddresses) -> None:
    text = " ".join(HOSTILE)
    scripts = {"Lead": [dispatch("Left", text), say("waiting"), say(text)], "Left": [say(text)]}
    async with showing(tmp_path, windows, addresses, scripts) as (opened, caller, view):
        top = (await caller.call("run_agent", name="Lead", task=text, wait_seconds=20))["execution_id"]
        await view.show(caller.client, top)
        for found in opened.bench.sql("select id from executions"):
            await view.until(row(found["id"], "completed"))
        shown = await view.frame.inner_text("#app")
        executed = [await frame.evaluate("globalThis.executed") for frame in view.page.frames]
        made = await view.frame.evaluate("document.querySelectorAll('img, svg[onload], #app script').length")

    assert "onerror" in shown
    assert executed == [None, None, None]
    assert made == 0


async def test_no_field_of_a_hostile_service_is_run_in_the_view(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    async with (
        face(tmp_path, config(tmp_path), scripts(), environ={"HOSTILE_SECRET": SECRET}) as opened,
        opened.client(within=90, extensions=[apps()]) as caller,
        opened_view(windows, addresses, caller.client) as view,
    ):
        top = (await caller.call("run_agent", name=QUIET_NAMES[2], task=NAME, wait_seconds=40))["execution_id"]
        await view.show(caller.client, top)
        await view.until(row(top, "partial"))
        for found in opened.bench.sql("select id from executions where root_execution_id = ?", top):
            await view.frame.click(f'[role=row][data-execution="{found["id"]}"]')
            for depth in ("turns", "raw", "messages"):
                await view.frame.click(f"[data-depth={depth}]")
                await view.until(f"[data-depth={depth}][aria-selected=true]")
                await view.frame.locator("#app details").evaluate_all(
                    "(all) => { for (const each of all) each.open = true; }"
                )
        shown = await view.frame.inner_text("#app")
        cracked = [await frame.evaluate("window.cracked") for frame in view.page.frames]
        made = await view.frame.evaluate("document.querySelectorAll('#app :is(img, script, iframe, link, base)').length")

    assert "onerror" in shown
    assert cracked == [None, None, None]
    assert made == 0
    assert SECRET not in shown


async def test_a_question_is_shown_and_nothing_in_the_view_decides_it(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    """The tree as the view gets it, with a question in it: the host answers in place of the server."""
    async with showing(tmp_path, windows, addresses, {"Left": [say("left")]}) as (_, caller, view):
        top = (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"]
        told = await caller.client.call_tool("follow_tree", {"execution_id": top})
        question = {"id": "q1", "execution_id": top, "agent": "Left", "tool": "files__drop", "arguments": '{"path": "/"}'}
        tree = {**(told.structured_content or {}), "approvals": [question], "dashboard": "http://127.0.0.1:8000"}
        answer = {"content": [{"type": "text", "text": "tree"}], "structuredContent": tree}
        await view.page.evaluate("(answer) => { window.host.bridge.oncalltool = async () => answer; }", answer)
        await view.show(caller.client, top)
        await view.until('[data-approval="q1"]')
        asked = await view.frame.inner_text('[data-approval="q1"]')
        buttons = await view.frame.eval_on_selector_all(
            "[data-action]", "(found) => found.map((each) => each.dataset.action)"
        )
        await view.frame.click("[data-action=dashboard]")
        links = await view.until_heard("link")

    assert "Left asks to call files__drop" in asked
    assert '{"path": "/"}' in asked
    assert not {"approve", "deny"} & set(buttons)
    assert links == [f"http://127.0.0.1:8000/executions/{top}"]


NODES, ELEMENTS = 1_000, 1_500


async def test_a_tree_of_a_thousand_executions_is_shown_in_few_elements(
    tmp_path: Path, windows: Windows, addresses: HostAddresses
) -> None:
    async with showing(tmp_path, windows, addresses, {"Left": [say("left")]}) as (opened, caller, view):
        top = (await caller.call("run_agent", name="Left", task="look", wait_seconds=20))["execution_id"]
        grow(opened.bench.database, top, NODES - 1)
        await view.show(caller.client, top)
        await view.until(row(top, "completed"))
        await view.until('[role="treegrid"][aria-rowcount]')
        rows, elements = await view.frame.evaluate(
            """() => [document.querySelector('[role="treegrid"]').ariaRowCount, document.querySelectorAll("*").length]"""
        )

    assert int(rows) == NODES + 1
    assert elements <= ELEMENTS


def grow(database: Path, top: str, count: int) -> None:
    """Give an execution so many children, as its own row says it but for the id."""
    with closing(sqlite_library().connect(database)) as connection, connection:
        connection.execute("create temp table child as select * from executions where id = ?", (top,))
        connection.execute("update child set parent_execution_id = ?, depth = 1", (top,))
        for position in range(count):
            connection.execute("update child set id = ?, position = ?, task = ?", (new_id(), position, f"part {position}"))
            connection.execute("insert into executions select * from child")
