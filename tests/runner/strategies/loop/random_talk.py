"""Talks by chance: a model that says, in any order, whatever a model may say, and tools for it to call.

Owns: the dice and what they mean; each request is looked at as the Messages API would. Must not know: rows and crashes.
Invariant: what is said depends on the seed and on what was said before, never on the clock.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from runner.llm.exchange import request_body
from runner.llm.protocol import OnText, Reply, Request, Usage
from runner.messages import Block
from tests.support.local_tools import LocalTools
from tests.support.pairing import objections

if TYPE_CHECKING:
    from runner.service.dispatcher import Dispatcher

CONFIG = """
defaults: {model: wide, limits: {max_concurrent_agents: 2, max_iterations: 6, max_dispatches: 40}}
models: {wide: {model: wide}, narrow: {model: narrow, max_tokens: 100, context_window: 4000}}
agents:
  Talker: {sub_agents: [Friend], description: talks}
  Friend: {description: talks too, require_tool_call: true}
  Hasty: {sub_agents: [Friend], limits: {on_finish: cancel}, output_schema: {pattern: ^the}, description: does not wait}
  Forgetful: {sub_agents: [Friend], model: narrow, description: has little room, limits: {max_iterations: 12}}
"""
AGENTS = ("Talker", "Hasty", "Forgetful")

PAUSED = "to be continued by whoever runs this"
"""In every reply that its provider wants back."""

CARRIED_OUT = "this should not have been carried out"

_CHILD = re.compile(r'"execution_id":"(\w+)"')
_FAVOURITES = {
    "dispatch_agent": 5,
    "get_result": 2,
    "wait_for": 2,
    "look": 2,
    "act": 2,
    "finish": 0.5,
    "fall": 0.3,
    "hurt": 0.3,
}
"""Of the tools that are there, which are called more often than others."""


CUT = {"cut": True}
"""The arguments of a call in whose middle a reply ended: it must not be carried out."""


async def _look(arguments: Mapping[str, Any]) -> str:
    await anyio.lowlevel.checkpoint()
    return CARRIED_OUT if arguments == CUT else f"seen: {json.dumps(dict(arguments))} {'.' * 900}"


async def _nothing(_: object) -> str:
    return ""


async def _break(_: object) -> str:
    raise RuntimeError("broken")


def tools() -> list[Callable[[Any], LocalTools]]:
    """What every agent can call: some tools that may run again after a crash, and some that must not."""
    harmless = LocalTools({"look": _look, "nothing": _nothing, "fall": _break}, effect="read_only")
    harmful = LocalTools({"act": _look, "hurt": _break}, effect="at_most_once")
    return [lambda _: harmless, lambda _: harmful]


class Talk:
    """A `Model` that talks by chance."""

    rehearses = False

    def __init__(self, seed: str, *, patience: float = 0.04) -> None:
        self._seed, self._patience = seed, patience
        self.dispatcher: Dispatcher | None = None
        """Through which people speak to those who talk."""
        self.asked: list[str] = []
        """Who asked, in order."""
        self.wrong: list[str] = []
        """What the Messages API would have refused."""
        self._serial = count(1)

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Look at the request, and say something."""
        await anyio.lowlevel.checkpoint()
        body = json.loads(request_body(request, request.spec))
        self.asked.append(request.execution_id)
        self.wrong += [f"{request.execution_id}: {each}" for each in objections(body, paused=PAUSED)]
        said = sum(1 for message in request.messages if message.role == "assistant")
        dice = random.Random(f"{self._seed} {request.messages[0].text} {len(request.messages)} {said}")
        await self._interrupt(dice, request.execution_id)
        content, stop_reason = self._answer(dice, request, said)
        return Reply(content, stop_reason, Usage(10, 5), request.spec.model)

    async def close(self) -> None:
        """Nothing is open."""

    async def _interrupt(self, dice: random.Random, execution: str) -> None:
        """Sometimes somebody has something to say while the model thinks."""
        if self.dispatcher is not None and dice.random() < 0.08:
            await self.dispatcher.send_message(execution, f"mind {next(self._serial)}", "ada")
        elif self.dispatcher is not None and dice.random() < 0.04:
            await self.dispatcher.ask_to_wrap_up(execution)

    def _answer(self, dice: random.Random, request: Request, said: int) -> tuple[list[Block], str]:
        if dice.random() < self._patience * (1 + said):
            return [_text("the answer")], "end_turn"
        match dice.choices(range(6), weights=(60, 14, 8, 6, 4, 3))[0]:
            case 0:
                *calls, last = self._calls(dice, request)
                if dice.random() < 0.2 and isinstance(last["input"], dict):
                    return [*_preface(dice), *calls, {**last, "input": CUT}], "max_tokens"
                return [*_preface(dice), *calls, last], "tool_use"
            case 1:
                return _blank(dice), "end_turn"
            case 2:
                return [_text("an answer that is cut h")], "max_tokens"
            case 3:
                return [_text(f"wait, {PAUSED}")], "pause_turn"
            case 4:
                return [*_preface(dice), *self._calls(dice, request)], "model_context_window_exceeded"
            case _:
                return [_text("I would rather not")], "refusal"

    def _calls(self, dice: random.Random, request: Request) -> Iterator[Block]:
        """Calls of tools that are there and that are not, with ids that are new and that are not."""
        names = [*(tool.name for tool in request.tools), "nobody_knows_it"]
        weights = [_FAVOURITES.get(name, 1) for name in names]
        for name in dice.choices(names, weights, k=dice.choices((1, 2, 3, 5), weights=(5, 3, 2, 1))[0]):
            identifier = "toolu_same" if dice.random() < 0.1 else f"toolu_{dice.randrange(16**12):x}"
            arguments = self._arguments(dice, name, request.messages[0].text, _children(request))
            yield {"type": "tool_use", "id": identifier, "name": name, "input": arguments}

    def _arguments(self, dice: random.Random, name: str, label: str, known: list[str]) -> Any:
        if dice.random() < 0.08:
            return dice.choice(['{"cut', "", []])
        match name:
            case "dispatch_agent":
                key = {"idempotency_key": dice.choice("ab")} if dice.random() < 0.3 else {}
                return {"name": "Friend", "task": f"{label}.{dice.randrange(100)}", **key}
            case "get_result" | "cancel_agent" | "read_result":
                return {"execution_id": dice.choice(known) if known else "nobody"}
            case "wait_for":
                return {"execution_ids": known or ["nobody"], "mode": dice.choice(["any", "all"])}
            case "finish":
                status = dice.choice(["completed", "partial", "blocked", "failed"])
                return {"status": status, "summary": "that is it"}
            case "list_agents":
                return {}
        return {"number": dice.randrange(100)}


def _children(request: Request) -> list[str]:
    """Those it knows by their ids."""
    shown = [block.get("content", "") for message in request.messages for block in message.content]
    return sorted({found for each in shown for found in _CHILD.findall(str(each))})


def _text(words: str) -> Block:
    return {"type": "text", "text": words}


def _thought() -> Block:
    return {"type": "thinking", "thinking": "hm", "signature": "signed"}


def _preface(dice: random.Random) -> list[Block]:
    return dice.choice(
        [[], [_text("I look")], [_thought()], [_thought(), _text("I look")], [_text("I look"), _text(" \n")]]
    )


def _blank(dice: random.Random) -> list[Block]:
    return dice.choice([[], [_text(" ")], [_thought()], [_thought(), _text("")]])
