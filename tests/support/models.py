"""A scripted model for tests: its replies are written in the test, and gates time them.

Owns: turns (`say`, `call`, `think`, `fail`, `gate`, `hang`), the assignment of turns to requests, the record of requests.
Must not know: how the runner uses a model.
Invariant: a turn is chosen by agent name or execution id, never by the text of a prompt; gates determine the order.

    model = ScriptedModel({
        "Lead": [say("looking") + call("dispatch_agent", name="Worker", task="count"), say("done")],
        "Worker": [gate(opened, say("42"))],
    })

Every execution of an agent plays the agent's turns from the first one; `shared(…)` hands them out across executions.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.lowlevel

from runner.llm.protocol import ModelError, OnText, Reply, Request, Usage
from runner.messages import Block


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply: its blocks, its usage, and the gate it waits for."""

    content: tuple[Block, ...] = ()
    stop_reason: str | None = None
    usage: Usage = Usage(input_tokens=10, output_tokens=5)  # noqa: RUF009 - frozen
    gate: anyio.Event | None = None
    error: BaseException | None = None

    def __add__(self, other: Turn) -> Turn:
        """Both turns as one reply: `say("looking") + call("search") + call("count")`."""
        return replace(self, content=self.content + other.content, stop_reason=other.stop_reason or self.stop_reason)

    def using(self, usage: Usage) -> Turn:
        """The same turn with another usage."""
        return replace(self, usage=usage)


Answer = Callable[[Request], Turn | Awaitable[Turn]]
"""Computes a turn from the request."""

Step = Turn | Answer


@dataclass(frozen=True, slots=True)
class Shared:
    """Turns handed out in order across all executions of an agent."""

    steps: tuple[Step, ...]


Script = Sequence[Step] | Shared | Answer


def say(text: str, *, stop_reason: str | None = None) -> Turn:
    return Turn(({"type": "text", "text": text},), stop_reason)


def call(tool: str, /, **arguments: Any) -> Turn:
    return Turn(({"type": "tool_use", "name": tool, "input": arguments},))


def malformed_call(tool: str, raw: str) -> Turn:
    """Call a tool with arguments that are not a JSON object."""
    return Turn(({"type": "tool_use", "name": tool, "input": raw},))


def think(text: str, signature: str = "signed") -> Turn:
    """Think, in a block that must be sent back unchanged."""
    return Turn(({"type": "thinking", "thinking": text, "signature": signature},))


def fail(kind: str = "overloaded", message: str = "the model is overloaded", *, recoverable: bool = True) -> Turn:
    """Fail with a provider error."""
    return Turn(error=ModelError(kind, message, "try again later", recoverable=recoverable))


def crash(error: BaseException) -> Turn:
    """Fail with an exception that only a bug raises."""
    return Turn(error=error)


def gate(opened: anyio.Event, turn: Turn) -> Turn:
    """Reply with `turn` once the event is set."""
    return replace(turn, gate=opened)


def hang() -> Turn:
    """Never answer; only cancellation ends the call."""
    return gate(anyio.Event(), say("never said"))


def shared(*steps: Step) -> Shared:
    """Hand these turns out in order across all executions of the agent."""
    return Shared(steps)


class ScriptedModel:
    """A `Model` that plays scripts by execution id, else by agent name, else the script of `*`."""

    rehearses = False

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self.scripts = dict(scripts)
        self.requests: list[Request] = []
        """Every request, in order of arrival, with its messages as they were then."""
        self.cancelled: list[Request] = []
        self.running = 0
        self.peak = 0
        self.closed = False
        self._positions: dict[str, int] = {}
        self._news = anyio.Event()

    def of(self, agent: str) -> list[Request]:
        """The requests of one agent or execution id, in order."""
        return [request for request in self.requests if agent in (request.agent, request.execution_id)]

    async def started(self, agent: str, count: int = 1) -> Request:
        """Wait for the agent's request number `count`, and return it."""
        while len(self.of(agent)) < count:
            await self._news.wait()
        return self.of(agent)[count - 1]

    async def saw_cancelled(self, agent: str) -> Request:
        """Wait until a call of this agent or execution id was cancelled."""
        while True:
            for request in self.cancelled:
                if agent in (request.agent, request.execution_id):
                    return request
            await self._news.wait()

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Record the request, wait for the gate of its turn, then reply."""
        kept = replace(request, messages=tuple(request.messages), tools=tuple(request.tools))
        self.requests.append(kept)
        self.running += 1
        self.peak = max(self.peak, self.running)
        self._announce()
        try:
            turn = await self._turn(kept)
            await anyio.lowlevel.checkpoint()
            if turn.gate is not None:
                await turn.gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(kept)
            raise
        finally:
            self.running -= 1
            self._announce()
        return _reply(turn, kept, on_text)

    async def close(self) -> None:
        self.closed = True

    async def _turn(self, request: Request) -> Turn:
        step = self._step(request)
        if isinstance(step, Turn):
            return step
        turn = step(request)
        return await turn if inspect.isawaitable(turn) else turn

    def _step(self, request: Request) -> Step:
        for key in (request.execution_id, request.agent, "*"):
            if key in self.scripts:
                break
        else:
            raise ModelError("rehearsal", f"the scripted model knows no agent `{request.agent}`")
        script = self.scripts[key]
        if callable(script):
            return script
        queue, steps = (key, script.steps) if isinstance(script, Shared) else (f"{key} {request.execution_id}", script)
        position = self._positions.get(queue, 0)
        if position >= len(steps):
            raise ModelError("rehearsal", f"the script of `{key}` has {len(steps)} turns and was asked for one more")
        self._positions[queue] = position + 1
        return steps[position]

    def _announce(self) -> None:
        self._news.set()
        self._news = anyio.Event()


def _reply(turn: Turn, request: Request, on_text: OnText) -> Reply:
    if turn.error is not None:
        raise turn.error
    content: list[Block] = []
    for block in turn.content:
        if block["type"] == "text":
            on_text(block["text"])
        # Ids are made here and not in `call`, so that several executions can play the same turn.
        content.append({**block, "id": f"toolu_{secrets.token_hex(8)}"} if block["type"] == "tool_use" else dict(block))
    stop_reason = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
    return Reply(content, turn.stop_reason or stop_reason, turn.usage, request.spec.model)
