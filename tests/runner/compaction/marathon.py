"""An agent of two hundred turns against a local Messages API that counts what it is sent.

Owns: what the models say, turn by turn, and the record of every request. Must not know: how a conversation is shortened.
Invariant: an answer follows from the request alone, so a request that is sent again is answered in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from tests.support.messages_api import Answer, Received, events_of, mute, text, tool_use
from tests.support.pairing import objections

BYTES_PER_TOKEN = 4
"""As the provider counts; an estimate does not know it."""
TASK = "Find the key. " + "Mind every step. " * 20
SUMMARY = "the plan is to look on until turn 199"
"""It names neither the call that counts nor the child: code does."""
KEY = "the key is 4711"
REPORT = "nothing in the north"


@dataclass
class Marathon:
    """The provider: answers, counts and keeps what it was sent."""

    look: Callable[[int], dict[str, Any]]
    """The call of an ordinary turn."""
    window: int
    turns: int = 200
    child_until: int = 150
    """The turn up to which the child does not answer."""
    silent: bool = False
    """Nobody gets an answer any more."""
    counts: Callable[[int], int] = lambda tokens: tokens
    """What it says a prompt has."""
    requests: list[Received] = field(default_factory=list)
    """Of the agent."""
    asked_for_summary: int = 0
    wrong: list[str] = field(default_factory=list)
    _late: anyio.Event = field(default_factory=anyio.Event)

    def answer(self, received: Received) -> Answer:
        """Whatever comes next."""
        body = received.body
        tokens = len(received.raw) // BYTES_PER_TOKEN
        self.wrong += objections(body)
        if tokens + body["max_tokens"] > self.window:
            self.wrong.append(f"request {len(self.requests)} has {tokens} tokens")
        usage = {"input_tokens": 10, "cache_read_input_tokens": max(0, self.counts(tokens) - 10)}
        first = body["messages"][0]["content"][0]["text"]
        if not first.startswith("Find the key"):
            return Answer(events=events_of([text(REPORT)], usage), gate=self._late)
        self.requests.append(received)
        if self.silent:
            return mute()
        if "tool_choice" in body:
            self.asked_for_summary += 1
            return Answer(events=events_of([text(SUMMARY)], usage))
        return Answer(events=events_of(self._turn(body), usage))

    def _turn(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        turn = turn_of(body) + 1
        if turn == self.child_until:
            self._late.set()
        match turn:
            case 2:
                return [tool_use("dispatch_agent", {"name": "Scout", "task": "look north"}, called(turn))]
            case 4:
                return [text(f"The key is shown by {called(3)}."), self.look(turn)]
            case _ if turn == self.turns - 1:
                return [tool_use("read_result", {"execution_id": called(3)}, called(turn))]
            case _ if turn == self.turns:
                found = KEY if KEY in newest(body) else "nothing"
                return [text(f"{found}, as {called(3)} shows")]
        return [self.look(turn)]


def called(turn: int) -> str:
    """The id of the call of a turn."""
    return f"toolu_{turn:04}"


def turn_of(body: dict[str, Any]) -> int:
    """How many turns the conversation has seen: the newest call says so."""
    calls = [block["id"] for each in body["messages"] for block in each["content"] if block["type"] == "tool_use"]
    return int(calls[-1].removeprefix("toolu_")) if calls else 0


def newest(body: dict[str, Any]) -> str:
    """What was said to the model last."""
    return json.dumps(body["messages"][-1])
