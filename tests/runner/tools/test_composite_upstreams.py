"""The composite over our own tools and real upstream servers: who is called, and with what."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from runner.messages import Tool, ToolCall
from runner.tools.builtin import Arguments, OwnTool, OwnTools
from runner.tools.composite import CompositeTools
from runner.tools.protocol import ToolExecutor, ToolResult
from tests.support.requirement import requirement
from tests.support.upstream_specs import Opened, opened, raw, sdk


class Watched:
    """A layer that remembers what it was asked for, and passes it on."""

    def __init__(self, inner: ToolExecutor) -> None:
        self._inner = inner
        self.calls: list[str] = []

    async def list_tools(self) -> Sequence[Tool]:
        return await self._inner.list_tools()

    async def call(self, call: ToolCall) -> ToolResult:
        self.calls.append(call.name)
        return await self._inner.call(call)

    async def close(self) -> None:
        await self._inner.close()


class Anything(Arguments):
    value: Any = None


async def answer(call: ToolCall, arguments: Anything) -> ToolResult:
    if arguments.value == "raise":
        raise RuntimeError("inside")
    return ToolResult("ours", structured=dict(call.arguments))


def layers(here: Opened) -> tuple[Watched, Watched, CompositeTools]:
    own = Watched(OwnTools([OwnTool("dispatch_agent", "Ours.", Anything, answer)]))
    upstream = Watched(here.tools())
    return own, upstream, CompositeTools([own, upstream])


@requirement("S2-CX-1")
async def test_the_list_is_ours_then_theirs_in_one_order_whichever_server_answers_first() -> None:
    async with opened(sdk("duplicates", "late"), raw("pid", "early")) as here:
        expected = ["dispatch_agent", "late__echo", "late__twin", "late__pid", "early__poke", "early__well"]
        for _ in range(20):
            _, _, tools = layers(here)
            assert [tool.name for tool in await tools.list_tools()] == expected


@requirement("S2-CX-3")
async def test_each_call_goes_to_its_own_side_with_its_arguments_unchanged() -> None:
    odd = {"value": [{"ключ": None, "": [[]], "n": 2**60, "t": 'a\n\u2028\\"'}, False, 1.5]}
    async with opened(sdk("duplicates", "theirs")) as here:
        own, upstream, tools = layers(here)
        assert (await tools.call(ToolCall("1", "dispatch_agent", odd))).structured == odd
        assert (own.calls, upstream.calls) == (["dispatch_agent"], [])
        result = await tools.call(ToolCall("2", "theirs__echo", odd))
        assert result.text == json.dumps({"tool": "echo", "arguments": odd})
        assert (own.calls, upstream.calls) == (["dispatch_agent"], ["theirs__echo"])


@requirement("S2-CX-5")
async def test_an_unknown_tool_is_an_error_and_reaches_neither_side() -> None:
    async with opened(raw("pid")) as here:
        own, upstream, tools = layers(here)
        result = await tools.call(ToolCall("1", "pid__pok", {}))
        assert (result.is_error, result.error_type) == (True, "unknown_tool")
        assert "`pid__poke`" in result.text
        assert own.calls == upstream.calls == []


@requirement("S2-CX-6")
async def test_an_exception_on_either_side_is_a_result_and_cancellation_is_not_swallowed() -> None:
    async with opened(sdk("plain")) as here:
        _, _, tools = layers(here)
        await tools.list_tools()
        assert (await tools.call(ToolCall("1", "dispatch_agent", {"value": "raise"}))).is_error
        assert (await tools.call(ToolCall("2", "plain__die", {}))).is_error
        with anyio.move_on_after(1.5) as scope:
            await tools.call(ToolCall("3", "plain__slow", {}))
        assert scope.cancelled_caught


@requirement("S2-CX-10")
@pytest.mark.parametrize("name", ["pid__poke", "pid.poke", "mcp__pid__poke"])
async def test_a_tool_the_execution_may_not_use_is_neither_listed_nor_called(name: str) -> None:
    async with opened(raw("pid")) as here:
        upstream = Watched(here.tools())
        tools = CompositeTools([upstream], permits=lambda tool: tool.label != "pid.poke")
        assert [tool.label for tool in await tools.list_tools()] == ["pid.well"]
        assert (await tools.call(ToolCall("1", name, {}))).is_error
        assert upstream.calls == []
