"""The rules of the Messages API for the pairing and order of messages, written independently of the runner.

Owns: the rules. Must not know: how a request was built. Invariant: where versions of the API differ, the strictest rule
applies: messages without an objection are accepted by every version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

Block = Mapping[str, Any]

IDENTIFIER = re.compile(r"[a-zA-Z0-9_-]+")
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
THOUGHTS = ("thinking", "redacted_thinking")


def objections(body: Mapping[str, Any], *, paused: str = "\0") -> list[str]:
    """The violations in a request. A reply that contains `paused` may be its last message."""
    turns = [
        (role, [block for message in messages for block in message["content"]])
        for role, messages in groupby(body["messages"], key=lambda message: message["role"])
    ]
    if not turns or turns[0][0] != "user":
        return ["the first message is not the user's"]
    found = [f"message {number} is empty" for number, message in enumerate(body["messages"]) if not message["content"]]
    found += [each for _, blocks in turns for block in blocks for each in _block(block)]
    found += _pairs(turns)
    role, last = turns[-1]
    if role != "user" and not any(paused in block.get("text", "") for block in last):
        found.append("the last message is the model's")
    tools = any(block["type"].startswith("tool_") for _, blocks in turns for block in blocks)
    if tools and not body.get("tools"):
        found.append("there are calls in it, and no tools are defined")
    ids = [block["id"] for _, blocks in turns for block in blocks if block["type"] == "tool_use"]
    return found + [f"two calls are called {each}" for each in {*ids} if ids.count(each) > 1]


def _block(block: Block) -> Iterator[str]:
    match block["type"]:
        case "text" if not block["text"].strip():
            yield "a text is blank"
        case "tool_use":
            if not isinstance(block["input"], dict):
                yield f"the arguments of {block['id']} are no object"
            if not IDENTIFIER.fullmatch(block["id"]) or not TOOL_NAME.fullmatch(block["name"]):
                yield f"{block['id']} or {block['name']} is no name"
        case "tool_result":
            inner = block["content"] if isinstance(block["content"], list) else []
            yield from (each for part in inner for each in _block(part))


def _pairs(turns: Sequence[tuple[str, Sequence[Block]]]) -> Iterator[str]:
    """Each call has exactly one result, in the first blocks of the next turn, and each result has a call."""
    asked: list[str] = []
    for role, blocks in turns:
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answers) != sorted(asked):
            yield f"{asked} were called and {answers} answered"
        if any(block["type"] != "tool_result" for block in blocks[: len(answers)]):
            yield "something stands before the results"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if role == "assistant" and blocks and blocks[-1]["type"] in THOUGHTS:
            yield "a reply ends with a thought"
    if asked:
        yield f"nobody answered {asked}"
