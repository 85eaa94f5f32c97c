"""Facts about the turns of an execution: replies of its model, results of its tools, and our messages to the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from db.rows import adoption, executions, transcript
from db.rows.executions import Place, event
from db.rows.transcript import MessageDraft, ModelCall, ToolOutcome, ToolStart
from db.store.unit import Write
from runner.record.facts import Event, shown, timeline


@dataclass(frozen=True, slots=True)
class Replied:
    """A model replied."""

    place: Place
    agent: str
    attempt: int
    call: ModelCall
    message: MessageDraft
    text: str
    tools: Sequence[ToolStart]
    compacted: Mapping[str, Any] | None = None
    """For a summary: what it replaces."""

    def write(self) -> Write:
        told = [*self.events, *(_calling(self.place, tool) for tool in self.tools), *_compacted(self)]
        return transcript.reply(self.attempt, self.call, self.message, self.tools, told)

    @property
    def events(self) -> list[Event]:
        """The timeline of the model call."""
        call = self.call
        end = {
            "status": "completed",
            "turn": call.turn,
            "text": shown(self.text),
            "stop_reason": call.stop_reason,
            "tokens": call.input_tokens + call.output_tokens + call.cache_read_tokens + call.cache_write_tokens,
            "cost_usd": call.cost_usd,
            "pricing": call.pricing,
        }
        return timeline(self.place, {"kind": "model", "id": call.id}, end)


@dataclass(frozen=True, slots=True)
class RepliedLate:
    """A model replied after a cancel request: the reply is stored, and none of its calls starts."""

    reply: Replied
    outcomes: Sequence[ToolOutcome]

    def write(self) -> Write:
        reply = self.reply
        calls = list(zip(reply.tools, self.outcomes, strict=True))
        return transcript.late_reply(reply.attempt, reply.call, reply.message, calls, [*reply.events, *_compacted(reply)])


@dataclass(frozen=True, slots=True)
class CallBroken:
    """A model call ended without a reply: `failed` or `cancelled`."""

    place: Place
    id: str
    status: str

    def write(self) -> Write:
        return executions.note(timeline(self.place, {"kind": "model", "id": self.id}, {"status": self.status}))


@dataclass(frozen=True, slots=True)
class CallLost:
    """A model call was in flight when the process died: its reply is lost."""

    place: Place
    attempt: int
    call: ModelCall

    def write(self) -> Write:
        call = self.call
        more = {"status": "lost", "turn": call.turn, "cost_usd": call.cost_usd}
        return adoption.lose_call(self.attempt, call, timeline(self.place, {"kind": "model", "id": call.id}, more))


@dataclass(frozen=True, slots=True)
class ToolSettled:
    """A tool call has its result."""

    place: Place
    agent: str
    tool: str
    seconds: float
    outcome: ToolOutcome

    def write(self) -> Write:
        outcome = self.outcome
        payload = {
            "kind": "tool",
            "id": outcome.id,
            "tool": self.tool,
            "status": outcome.status,
            "is_error": outcome.is_error,
            "error_type": outcome.error_type,
            "seconds": round(self.seconds, 3),
        }
        completed = event(self.place, "timeline_event.completed", payload)
        return transcript.settle(outcome, [completed, *_consumed(self.place, outcome.consumed)])


@dataclass(frozen=True, slots=True)
class Said:
    """A message of ours was added to the transcript; it may show deliveries or hold a compaction decision."""

    place: Place
    attempt: int
    message: MessageDraft
    consumed: Sequence[str] = ()
    compacted: Mapping[str, Any] | None = None

    def write(self) -> Write:
        told = [*_consumed(self.place, self.consumed), *_compacted(self)]
        return transcript.say(self.attempt, self.message, self.consumed, told)


@dataclass(frozen=True, slots=True)
class BeganAgain:
    """An attempt failed; the retry starts with its first message."""

    place: Place
    agent: str
    attempt: int
    deadline: str
    first: MessageDraft
    told: Mapping[str, Any]

    def write(self) -> Write:
        payload = {"agent": self.agent, "deadline_at": self.deadline, **self.told}
        again = event(self.place, "execution.retrying", payload)
        return transcript.begin_again(self.attempt, self.deadline, self.first, [again])


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """An approval is needed for a call that no model made, such as the start of a plan's step."""

    place: Place
    attempt: int
    call: ToolStart

    def write(self) -> Write:
        return transcript.ask(self.attempt, self.call, [_calling(self.place, self.call)])


def _calling(place: Place, tool: ToolStart) -> Event:
    begun = {"kind": "tool", "id": tool.id, "tool": tool.tool, "arguments": shown(tool.arguments)}
    return event(place, "timeline_event.created", begun)


def _consumed(place: Place, deliveries: Sequence[str]) -> list[Event]:
    return [event(place, "delivery.consumed", {"deliveries": list(deliveries)})] if deliveries else []


def _compacted(fact: Replied | Said) -> list[Event]:
    return [event(fact.place, "context.compacted", fact.compacted)] if fact.compacted is not None else []
