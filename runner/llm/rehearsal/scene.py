"""What a rehearsal sees: the transcript so far, by its structure.

Owns the reading of messages into answered tool calls and deliveries, and the names that templates may use.
Invariant: everything comes from message blocks; no prompt is parsed and no turn is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from runner.llm.protocol import Request
from runner.llm.rehearsal.script import Situation, tool_name
from runner.llm.rehearsal.template import read_json
from runner.messages import Block, Message
from runner.snapshot import DISPATCH


@dataclass(frozen=True)
class Answered:
    """A tool call and its answer."""

    tool: str
    arguments: Mapping[str, Any]
    id: str
    is_error: bool
    text: str

    @cached_property
    def json(self) -> Any:
        """The answer as JSON data, or None."""
        return read_json(self.text)


class Scene:
    """One moment of an execution: a request, or an earlier point of its transcript."""

    def __init__(self, request: Request, length: int | None = None) -> None:
        self._request = request
        self._messages = tuple(request.messages[:length])
        newest = next((i for i in range(len(self._messages), 0, -1) if self._messages[i - 1].role == "assistant"), 0)
        self._newest = self._messages[newest:]
        # The tools offered earlier are not in the transcript; assume some, unless the story had ended.
        self.concluding = not request.tools and length is None

    @cached_property
    def results(self) -> list[Answered]:
        """Every answered tool call so far, in order."""
        calls = {call.id: call for message in self._messages for call in message.tool_calls}
        return [
            Answered(call.name, call.arguments, call.id, bool(block.get("is_error")), _text_of(block.get("content")))
            for message in self._messages
            for block in message.content
            if block["type"] == "tool_result" and (call := calls.get(block["tool_use_id"]))
        ]

    @cached_property
    def deliveries(self) -> list[dict[str, Any]]:
        """Every result of a sub-agent so far, in order."""
        return _deliveries_in(self._messages)

    def is_now(self, situation: Situation) -> bool:
        """Whether the newest messages match `situation`."""
        match situation.kind:
            case "any":
                return True
            case "conclude":
                return self.concluding
            case "start":
                return len(self._newest) == len(self._messages)
            case "after_tool":
                return any(name == "*" or name in self._newest_tools for name in situation.names)
            case "delivered":
                agents = {delivery["agent"] for delivery in self._newest_deliveries}
                return bool(agents) and (not situation.names or not agents.isdisjoint(situation.names))
            case _:
                return len(self._newest) < len(self._messages) and not (self._newest_tools or self._newest_deliveries)

    def describe(self) -> str:
        """The current situation in the script's words, for an error."""
        if self.concluding:
            return "conclude"
        if self._newest_tools:
            return f"after_tool: {', '.join(sorted(self._newest_tools))}"
        if self._newest_deliveries:
            return f"delivered: {', '.join(sorted({str(item['agent']) for item in self._newest_deliveries}))}"
        return "start" if len(self._newest) == len(self._messages) else "message"

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The names a template may use."""
        request = self._request
        return {
            "task": next((message.text for message in self._messages if message.role == "user"), ""),
            "input": request.input,
            "agent": request.agent,
            "caller": request.caller,
            "execution_id": request.execution_id,
            "session": request.session,
            "results": self.results,
            "result": self._result,
            "all_results": self._all_results,
            "deliveries": self.deliveries,
            "pending": self._pending(),
            "message": "\n".join(filter(None, (message.text for message in self._newest))),
            "tools": [tool.name for tool in request.tools],
        }

    def _all_results(self, tool: str) -> list[Answered]:
        name = tool_name(tool)
        return [answered for answered in self.results if answered.tool == name]

    def _result(self, tool: str) -> Answered | None:
        found = self._all_results(tool)
        return found[-1] if found else None

    def _pending(self) -> list[str]:
        """Executions that were dispatched but not delivered."""
        delivered = {delivery["execution_id"] for delivery in self.deliveries}
        answers = [answered.json for answered in self._all_results(DISPATCH) if not answered.is_error]
        dispatched = [answer["execution_id"] for answer in answers if isinstance(answer, dict) and "execution_id" in answer]
        return [execution_id for execution_id in dispatched if execution_id not in delivered]

    @cached_property
    def _newest_tools(self) -> set[str]:
        ids = {
            block["tool_use_id"] for message in self._newest for block in message.content if block["type"] == "tool_result"
        }
        return {answered.tool for answered in self.results if answered.id in ids}

    @cached_property
    def _newest_deliveries(self) -> list[dict[str, Any]]:
        return _deliveries_in(self._newest)


def _deliveries_in(messages: Sequence[Message]) -> list[dict[str, Any]]:
    found = [delivered for message in messages for delivered in message.delivered]
    return [{**asdict(delivered), "json": read_json(delivered.text)} for delivered in found]


def _text_of(content: str | Sequence[Block] | None) -> str:
    """The result itself: its first block. The next one is Outrider's, with the id of the call."""
    if isinstance(content, str):
        return content
    return next((block["text"] for block in content or () if block["type"] == "text"), "")
