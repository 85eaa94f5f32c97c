"""A small part of the Messages API: reads a request, writes a reply as a whole or as a stream of events.

Owns: the shapes on the wire. Must not know: sockets, or how replies are chosen. Invariant: ids are unique in one process.
"""

import itertools
import json
from collections.abc import Mapping
from typing import Any

from bench.brain import Conversation, Thought

_numbers = itertools.count(1)


def encode(value: Any) -> bytes:
    """The shortest JSON of a value."""
    return json.dumps(value, separators=(",", ":")).encode()


def read_request(body: Mapping[str, Any]) -> Conversation:
    """The conversation of a request, without the model's own earlier texts."""
    texts: list[str] = []
    results: list[str] = []
    for message in body["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                texts.append(block["text"])
            elif block["type"] == "tool_result":
                results.append(_text_of(block.get("content")))

    return Conversation("\n".join(texts), results, [tool["name"] for tool in body.get("tools") or ()])


def message_of(model: str, thought: Thought, prompt: Mapping[str, int]) -> dict[str, Any]:
    """A thought as a message of the assistant; `prompt` has the usage fields of the prompt."""
    content: list[dict[str, Any]] = [{"type": "text", "text": thought.text}] if thought.text else []
    content += [
        {"type": "tool_use", "id": _new_id("toolu"), "name": call.tool, "input": call.arguments} for call in thought.calls
    ]
    return {
        "id": _new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if thought.calls else "end_turn",
        "stop_sequence": None,
        "usage": {**prompt, "output_tokens": 12 + 30 * len(thought.calls)},
    }


def uncached(request_size: int) -> dict[str, int]:
    """The usage fields of a prompt without a cache; tokens are estimated from the size."""
    return {"input_tokens": request_size // 4, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def stream_of(message: Mapping[str, Any]) -> bytes:
    """The same message as server-sent events."""
    usage = message["usage"]
    opening = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    parts = [_event("message_start", message=opening)]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            start: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": encode(block["input"]).decode()}
        parts.append(_event("content_block_start", index=index, content_block=start))
        parts.append(_event("content_block_delta", index=index, delta=delta))
        parts.append(_event("content_block_stop", index=index))

    closing = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    parts.append(_event("message_delta", delta=closing, usage=usage))
    parts.append(_event("message_stop"))
    return b"".join(parts)


def _new_id(prefix: str) -> str:
    return f"{prefix}_{next(_numbers):012d}"


def _event(name: str, **payload: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + encode({"type": name, **payload}) + b"\n\n"


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content

    return "\n".join(block.get("text", "") for block in content or ())
