"""Reads the requests that a scripted model received.

Owns: extracting tool results, ids of dispatched executions and delivered reports from a request. Must not know: any test.
Invariant: everything is read from the messages of a request, as a model would read it.
"""

import json
from typing import Any

from runner.llm.protocol import Request
from runner.messages import Block, Delivered
from tests.support.models import Turn, call


def dispatch(name: str, task: str = "look", **more: Any) -> Turn:
    return call("dispatch_agent", name=name, task=task, **more)


def results(request: Request) -> list[Block]:
    """The latest tool results in the request, in the order of the calls."""
    message = next(message for message in reversed(request.messages) if message.kind == "results")
    return list(message.content)


def text_of(block: Block) -> str:
    """The text of a tool result, without the citation mark."""
    content = block["content"]
    return str(content if isinstance(content, str) else content[0]["text"])


def answer(request: Request, index: int = 0) -> Any:
    """One tool result as data; the citation mark after it is ignored."""
    return json.JSONDecoder().raw_decode(text_of(results(request)[index]))[0]


def dispatched(request: Request) -> list[str]:
    """The ids of all executions dispatched so far, in order."""
    blocks = [block for message in request.messages if message.kind == "results" for block in message.content]
    answers = [text_of(block) for block in blocks if not block.get("is_error")]
    return [json.loads(text)["execution_id"] for text in answers if '"note"' in text]


def delivered(request: Request) -> list[Delivered]:
    """All child results delivered into the conversation so far."""
    return [each for message in request.messages for each in message.delivered]


def shown(request: Request) -> str:
    """All text of the conversation, tool results included."""
    blocks = [block for message in request.messages for block in message.content]
    return "\n".join(str(block.get("text") or block.get("content") or "") for block in blocks)
