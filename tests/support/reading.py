"""Reading what a scripted model was shown.

Owns: the way from a request to tool results, ids of dispatched executions and delivered reports. Must not know: any test.
Invariant: everything is read from the messages of a request, as a model would read it.
"""

import json
from typing import Any

from runner.llm.protocol import Request
from runner.transcript import Block, Delivered
from tests.support.models import Turn, call


def dispatch(name: str, task: str = "look", **more: Any) -> Turn:
    """Dispatch an agent."""
    return call("dispatch_agent", name=name, task=task, **more)


def results(request: Request) -> list[Block]:
    """The tool results the request was made with, in the order of the calls."""
    message = next(message for message in reversed(request.messages) if message.kind == "results")
    return list(message.content)


def answer(request: Request, index: int = 0) -> Any:
    """One tool result as data."""
    return json.loads(results(request)[index]["content"])


def dispatched(request: Request) -> list[str]:
    """The ids of everything dispatched so far, in order."""
    found = []
    for message in request.messages:
        for block in message.content:
            if block["type"] == "tool_result" and "note" in block["content"] and not block.get("is_error"):
                found.append(json.loads(block["content"])["execution_id"])
    return found


def delivered(request: Request) -> list[Delivered]:
    """Every end of a child that was pushed into the conversation so far."""
    return [each for message in request.messages for each in message.delivered]


def shown(request: Request) -> str:
    """All text of the conversation, tool results included."""
    blocks = [block for message in request.messages for block in message.content]
    return "\n".join(str(block.get("text") or block.get("content") or "") for block in blocks)
