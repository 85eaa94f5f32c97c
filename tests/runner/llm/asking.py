"""Requests as the tests of the LLM seam make them.

Owns: short spellings. Must not know: which adapter is asked. Invariant: everything not said is an ordinary default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry import ModelSpec
from runner.llm.protocol import Request
from runner.messages import Answer, Message, Tool, ToolCall, tool_results

SPEC = ModelSpec(name="sonnet", model="claude-sonnet-5-5", api_key_env="OUTRIDER_TEST_KEY")


def tool(name: str) -> Tool:
    """A tool without arguments."""
    server, _, rest = name.partition("__")
    return Tool(name, f"does {name}", {"type": "object"}, f"{server}.{rest}" if rest else name, server)


def asked(*messages: Message, spec: ModelSpec = SPEC, **fields: Any) -> Request:
    """A request of the agent `Worker`."""
    fields = {"agent": "Worker", "execution_id": "e1", "system": "be brief", **fields}
    return Request(spec=spec, messages=list(messages) or [user("count the pods")], **fields)


def user(words: str) -> Message:
    """A message from outside."""
    return Message.of_text("user", words)


def assistant(*blocks: dict[str, Any]) -> Message:
    """A message of the model."""
    return Message("assistant", list(blocks))


def called(name: str, answer: str, *, is_error: bool = False, id_: str = "t1", **arguments: Any) -> Sequence[Message]:
    """A tool call and its answer."""
    call = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
    return assistant(call), tool_results([Answer(ToolCall.of_block(call), answer, is_error)])
