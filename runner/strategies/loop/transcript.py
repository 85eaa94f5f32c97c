"""."""

from __future__ import annotations

from typing import Any

from runner.messages import CORRECTION, FULL, REMINDER, SHORTFALLS, Answer, Message, ToolCall


class Transcript:
    """The conversation so far. Everything the loop knows is here or derived from it, so it can be rebuilt from rows."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.unanswered: list[ToolCall] = []
        """Tool calls of the last reply that have no result yet."""
        self.answers: dict[str, Answer] = {}
        """The results of those of its calls that have one, when only some do, by the id of the call."""
        self.empty_answers = 0
        """Replies in a row that said and asked nothing; they are stored but never sent back."""
        self.final: Any = None
        """What `finish` reported, once it was accepted."""
        self.last_text = ""
        """The newest text of the model: what there is to show if everything else is lost."""
        self.call_ids: set[str] = set()
        """Of all tool calls so far."""
        self.called: set[str] = set()
        """The names of the tools called for the task at hand."""
        self.objections: set[str] = set()
        """The kinds of what was pointed out about answers to it."""
        self.stop_reason = ""
        """Why the newest reply ended, in the provider's word."""
        self.continuations = 0
        """How many replies in a row went on with the text of the one before."""
        self.unpaid: str | None = None
        """Which budget does not pay for another question, once none does."""
        self._begun = ""
        """The text so far of an answer that comes in several replies."""

    def append(self, message: Message, stop_reason: str = "end_turn") -> None:
        """Add a message; an empty reply only counts."""
        if message.kind == "reply":
            text, self.unanswered, self.stop_reason = message.text, message.tool_calls, stop_reason
            self.called.update(call.name for call in self.unanswered)
            self._read(message)
            if not text and not self.unanswered:
                self.empty_answers += 1
                return
            self.empty_answers = 0
        elif message.kind != "note":
            self._begun = ""  # whatever comes next answers this
        if message.kind == "results":
            self.unanswered, self.answers = [], {}
        elif message.kind == "delivery":
            self.empty_answers = 0  # there is something new to say something about
        elif message.kind in (REMINDER, CORRECTION):
            self.objections.add(message.kind)
        elif message.kind == "task":
            self.called, self.objections = set(), set()
        self.messages.append(message)

    def _read(self, reply: Message) -> None:
        """An answer that was cut or paused goes on in the next reply: their texts are one."""
        words = self._begun + reply.words
        self.last_text = words.strip() if reply.text else self.last_text
        goes_on = self.stop_reason in ("max_tokens", "pause_turn") and not self.unanswered
        self.continuations = self.continuations + 1 if self._begun else 0
        self._begun = words if goes_on else ""

    @property
    def resting(self) -> bool:
        """Whether the model's last word asks for nothing more."""
        return (
            self.final is not None
            or self.empty_answers > 0
            or (bool(self.messages) and self.messages[-1].kind == "reply" and not self._paused)
        )

    @property
    def _paused(self) -> bool:
        """Whether the provider wants its reply back, to go on with it."""
        return self.stop_reason == "pause_turn" and not self.concluding

    @property
    def shortfall(self) -> str | None:
        """Why the newest reply is not whole, or not the last one that was wanted, if so."""
        return self.unpaid or SHORTFALLS.get(self.stop_reason)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more can be asked: the conversation has become too long for its model, or for its budget."""
        return self.unpaid is not None or self.stop_reason == FULL

    @property
    def concluding(self) -> bool:
        """Whether the last question, for a conclusion, has been put."""
        return any(message.kind == "conclude" for message in self.messages[-2:])
