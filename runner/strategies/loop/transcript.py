"""The transcript of a loop, and the state derived from it: open calls, the last text, and why the last reply ended.

Owns no rows: `runner/strategies/loop/conversation.py` stores the messages, `runner/strategies/loop/rebuild.py` reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.messages import CORRECTION, FULL, REMINDER, SHORTFALLS, Answer, Message, ToolCall


class Transcript:
    """The conversation so far. All state of the loop is here or derived from it, so rows can restore it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.unanswered: Sequence[ToolCall] = ()
        """Tool calls of the last reply that have no result yet."""
        self.answers: dict[str, Answer] = {}
        """Results by call id, while only some of its calls have one."""
        self.empty_answers = 0
        """Empty replies in a row; they are stored but never sent back."""
        self.final: Any = None
        """The accepted report of `finish`."""
        self.last_text = ""
        """The newest text of the model: the answer if everything else is lost."""
        self.call_ids: set[str] = set()
        """Ids of all tool calls so far."""
        self.called: frozenset[str] = frozenset()
        """Names of the tools called for the current task."""
        self.objections: frozenset[str] = frozenset()
        """Kinds of the objections raised against answers to it."""
        self.stop_reason = ""
        """Why the newest reply ended, as the provider names it."""
        self.continuations = 0
        """How many replies in a row continued the text of the one before."""
        self.unpaid: str | None = None
        """The exhausted budget, once it covers no further call."""
        self._begun = ""
        """The text so far of an answer that spans several replies."""

    def append(self, message: Message, stop_reason: str = "end_turn") -> None:
        """Add a message; an empty reply is only counted."""
        if message.kind == "reply":
            text, self.unanswered, self.stop_reason = message.text, message.tool_calls, stop_reason
            self.called |= {call.name for call in self.unanswered}
            self._read(message)
            if not text and not self.unanswered:
                self.empty_answers += 1
                return
            self.empty_answers = 0
        elif message.kind != "note":
            self._begun = ""  # the next reply answers this message
        if message.kind == "results":
            self.unanswered, self.answers = (), {}
        elif message.kind == "delivery":
            self.empty_answers = 0  # the model has something new to answer
        elif message.kind in (REMINDER, CORRECTION):
            self.objections |= {message.kind}
        elif message.kind == "task":
            self.called = self.objections = frozenset()
        self.messages.append(message)

    def _read(self, reply: Message) -> None:
        """An answer that was cut or paused continues in the next reply: their texts are joined."""
        words = self._begun + reply.words
        self.last_text = words.strip() if reply.text else self.last_text
        goes_on = self.stop_reason in ("max_tokens", "pause_turn") and not self.unanswered
        self.continuations = self.continuations + 1 if self._begun else 0
        self._begun = words if goes_on else ""

    @property
    def resting(self) -> bool:
        """Whether the model's last reply asks for nothing more."""
        return (
            self.final is not None
            or self.empty_answers > 0
            or (bool(self.messages) and self.messages[-1].kind == "reply" and not self._paused)
        )

    @property
    def _paused(self) -> bool:
        """Whether the provider wants its reply back, to continue it."""
        return self.stop_reason == "pause_turn" and not self.concluding

    @property
    def shortfall(self) -> str | None:
        """Why the newest reply is incomplete, or not the last one that was wanted; None if neither."""
        return self.unpaid or SHORTFALLS.get(self.stop_reason)

    @property
    def exhausted(self) -> bool:
        """Whether no further call is possible: the conversation is too long for its model or its budget."""
        return self.unpaid is not None or self.stop_reason == FULL

    @property
    def concluding(self) -> bool:
        """Whether a conclusion has been asked for."""
        return any(message.kind == "conclude" for message in self.messages[-2:])
