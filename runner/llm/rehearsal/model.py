"""The rehearsed model: answers from a script, over what the tools really returned, without a provider.

Owns the choice of a turn and the reply made from it. Invariant: a reply depends only on the script and the request, so a
resumed execution gets the same answers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
from pydantic_core import to_json

from runner.llm.protocol import ModelError, OnText, Reply, Request, Usage
from runner.llm.rehearsal.scene import Scene
from runner.llm.rehearsal.script import Rehearsal, ScriptedCall, ScriptedTurn
from runner.llm.rehearsal.template import Rendering, Variables
from runner.messages import Block, clean

CHARACTERS_PER_TOKEN = 4
"""A rehearsal has no token counts; this estimate keeps its totals from being zero."""

_PIECE = re.compile(r".{1,24}(?:\s+|$)|.\S*\s*", re.DOTALL)
"""Pieces of streamed text: about as long as a provider's, broken between words."""


class RehearsedModel:
    """A `Model` that plays a script; `pace` is the seconds a reply takes, so that a live tree can be watched."""

    rehearses = True

    def __init__(self, script: Rehearsal, *, pace: float = 0.0) -> None:
        self._script = script
        self._pace = pace

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Answer with the agent's first matching turn. Raises ModelError of kind `rehearsal`."""
        content = self._content(request)
        await anyio.lowlevel.checkpoint()
        pieces = [piece for block in content if block["type"] == "text" for piece in _PIECE.findall(block["text"])]
        for piece in pieces:
            await self._take_time(len(pieces) + 1)
            on_text(piece)
        await self._take_time(len(pieces) + 1)
        called = any(block["type"] == "tool_use" for block in content)
        usage = _estimate(request, content)
        model = f"rehearsal:{self._script.name}"
        return Reply(content, "tool_use" if called else "end_turn", usage, model, rehearsed=True)

    async def close(self) -> None:
        """Nothing is open."""

    async def _take_time(self, parts: int) -> None:
        if self._pace:
            await anyio.sleep(self._pace / parts)

    def _content(self, request: Request) -> list[Block]:
        turns = self._script.turns_of(request.agent, request.caller)
        scene = Scene(request)
        turn = _choose(turns, scene, _played(turns, request))
        if turn is None:
            raise ModelError(
                "rehearsal",
                f"the rehearsal `{self._script.name}` has no turn for `{request.agent}` when `{scene.describe()}`",
                "add such a turn, or one with `when: any`, to the script, or set an API key to ask a real model",
            )
        variables = dict(scene.variables)
        for name, render in turn.let.items():
            variables[name] = render(variables)
        content: list[Block] = []
        if turn.say is not None and (text := clean(turn.say(variables))):
            content.append({"type": "text", "text": text})
        calls = [call for scripted in turn.calls for call in _calls(scripted, variables)]
        content += [_tool_use(request, index, *call) for index, call in enumerate(calls)]
        if not content:
            raise ModelError("rehearsal", f"{turn.where}: the turn gave neither text nor a call", "add a `say` to the turn")
        return content


def _played(turns: tuple[ScriptedTurn, ...], request: Request) -> set[ScriptedTurn]:
    """The `once` turns played in this transcript, found by replaying the choice at each of its answers."""
    played: set[ScriptedTurn] = set()
    if any(turn.once for turn in turns):
        for length, message in enumerate(request.messages):
            if message.role == "assistant":
                turn = _choose(turns, Scene(request, length), played)
                played |= {turn} if turn is not None and turn.once else set()
    return played


def _choose(turns: tuple[ScriptedTurn, ...], scene: Scene, played: set[ScriptedTurn]) -> ScriptedTurn | None:
    """The first matching turn. Without tools, `conclude` turns come first, and turns that call tools are out."""
    if scene.concluding:
        possible = [turn for turn in turns if not turn.calls]
        turns = tuple(sorted(possible, key=lambda turn: turn.when.kind != "conclude"))
    for turn in turns:
        if turn not in played and scene.is_now(turn.when) and _holds(turn.condition, scene.variables):
            return turn
    return None


def _holds(condition: Rendering | None, variables: Variables) -> bool:
    return condition is None or bool(condition(variables))


def _calls(scripted: ScriptedCall, variables: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    scopes = [variables]
    if scripted.each is not None:
        scopes = [{**variables, "item": item} for item in scripted.each(variables)]
    for scope in scopes:
        if _holds(scripted.condition, scope):
            yield scripted.tool, scripted.arguments(scope)


def _tool_use(request: Request, index: int, tool: str, arguments: Any) -> Block:
    """A call with an id that is unique in the service, and the same when the same request is answered again."""
    digest = hashlib.blake2b(f"{request.execution_id} {len(request.messages)} {index} ".encode(), digest_size=9)
    digest.update(request.messages[-1].encoded if request.messages else b"")
    return {"type": "tool_use", "id": f"toolu_{digest.hexdigest()}", "name": tool, "input": arguments}


def _estimate(request: Request, content: list[Block]) -> Usage:
    messages = sum(len(message.encoded) for message in request.messages)
    asked = len(request.system) + messages + sum(len(tool.encoded) for tool in request.shown)
    return Usage(asked // CHARACTERS_PER_TOKEN + 1, len(to_json(content)) // CHARACTERS_PER_TOKEN + 1)
