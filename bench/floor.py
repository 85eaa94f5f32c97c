"""The floors: the anthropic SDK and a loop do the same work, without a service around them.

Owns: the bare loop. Must not know: Outrider. Invariant: no floor does less than the work; the variants only add to it.

- `plain`: the SDK over its aiohttp client, nothing persisted.
- `sqlite`: also one row per event (start, request, reply, tool call, tool result, end), written behind.
- `durable`: also every request waits until the agent's events so far are committed, by group commit with
  `synchronous=FULL`: the floor of a service that loses nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anthropic import AsyncAnthropic, DefaultAioHttpClient
from anthropic.types import MessageParam, TextBlock, ToolParam, ToolResultBlockParam, ToolUseBlock, ToolUseBlockParam

from bench import lookup
from bench.contest import MODEL, SUPERVISOR_PROMPT, WORKER_PROMPT, Entrant, Options
from bench.event_log import EventLog
from bench.measure import main

LOOKUP: ToolParam = {"name": "lookup", "description": lookup.DESCRIPTION, "input_schema": lookup.SCHEMA}
DELEGATE: ToolParam = {
    "name": "delegate",
    "description": "Give a task to a sub-agent and wait for its answer.",
    "input_schema": {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]},
}

Carry = Callable[[Mapping[str, Any]], Awaitable[str]]
"""The implementation of a tool."""


@dataclass(frozen=True, slots=True)
class Loop:
    """An agent: model and tool in turn until the model calls no tool."""

    client: AsyncAnthropic
    log: EventLog | None
    system: str
    tool: ToolParam
    carry: Carry

    async def run(self, name: str, task: str) -> str:
        """Do a task and return the last text."""
        messages: list[MessageParam] = [{"role": "user", "content": task}]
        self._note(name, "start", task)
        while True:
            text, calls = await self._turn(name, messages)
            if not calls:
                self._note(name, "end", text)
                if self.log:
                    await self.log.committed()
                return text
            messages.append({"role": "user", "content": await self._results(name, calls)})

    async def _turn(self, name: str, messages: list[MessageParam]) -> tuple[str, list[ToolUseBlockParam]]:
        self._note(name, "llm_request", messages[-1])
        if self.log:
            await self.log.committed()
        reply = await self.client.messages.create(
            model=MODEL, max_tokens=1024, system=self.system, messages=messages, tools=[self.tool]
        )
        calls: list[ToolUseBlockParam] = [
            {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
            for block in reply.content
            if isinstance(block, ToolUseBlock)
        ]
        text = "".join(block.text for block in reply.content if isinstance(block, TextBlock))
        messages.append({"role": "assistant", "content": calls or text})
        self._note(name, "llm_reply", calls or text)
        return text, calls

    async def _results(self, name: str, calls: list[ToolUseBlockParam]) -> list[ToolResultBlockParam]:
        texts = [""] * len(calls)

        async def carry_out(number: int) -> None:
            texts[number] = await self.carry(calls[number]["input"])

        for call in calls:
            self._note(name, "tool_call", call)
        if len(calls) == 1:
            await carry_out(0)
        else:
            async with anyio.create_task_group() as group:
                for number in range(len(calls)):
                    group.start_soon(carry_out, number)

        results: list[ToolResultBlockParam] = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": text}
            for call, text in zip(calls, texts, strict=True)
        ]
        for result in results:
            self._note(name, "tool_result", result)
        return results

    def _note(self, name: str, kind: str, body: Any) -> None:
        if self.log:
            self.log.add(name, kind, body)


@asynccontextmanager
async def mcp_lookup() -> AsyncIterator[Carry]:
    """The upstream tool through the MCP SDK's own client, over stdio."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.types import TextContent

    command, *arguments = lookup.SERVER_COMMAND
    parameters = StdioServerParameters(command=command, args=arguments, cwd=Path(__file__).parents[1])
    async with stdio_client(parameters) as (received, sent), ClientSession(received, sent) as session:
        await session.initialize()

        async def carry(arguments: Mapping[str, Any]) -> str:
            content = (await session.call_tool("lookup", dict(arguments))).content[0]
            return content.text if isinstance(content, TextContent) else ""

        yield carry


async def lookup_here(arguments: Mapping[str, Any]) -> str:
    """The upstream tool in this process."""
    return lookup.value_of(arguments["key"])


@asynccontextmanager
async def contest(options: Options) -> AsyncIterator[Entrant]:
    """The client, the log and the two loops."""
    durable = options.variant == "durable"
    async with AsyncExitStack() as stack:
        transport = DefaultAioHttpClient(limits=httpx2.Limits(max_connections=0))
        client = await stack.enter_async_context(
            AsyncAnthropic(api_key="fake", base_url=options.base_url, max_retries=0, http_client=transport)
        )
        log = None if options.variant == "plain" else EventLog(options.database, durable=durable)
        carry = lookup_here if options.tool == "inproc" else await stack.enter_async_context(mcp_lookup())
        worker = Loop(client, log, WORKER_PROMPT, LOOKUP, carry)

        async def delegate(arguments: Mapping[str, Any]) -> str:
            return await worker.run(arguments["task"], arguments["task"])

        supervisor = Loop(client, log, SUPERVISOR_PROMPT, DELEGATE, delegate)

        async def run() -> str:
            try:
                return await supervisor.run("supervisor", options.directive)
            finally:
                with anyio.CancelScope(shield=True):
                    if log:
                        await log.close()

        yield Entrant(run)


if __name__ == "__main__":
    main(contest, ("plain", "sqlite", "durable"))
