"""Chat: what a user says and is answered, from an execution to what is stored, and from a row to what is shown again. Pure.

Owns the words for an end without an answer: whoever wrote hears something in any case, and what to do next.
Must not know: who asks, or when a message may be answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from db.clock import moment
from db.ids import new_id
from db.people import Answer, NewChatMessage
from db.reads import Record
from db.status import ExecutionStatus
from db.writes import NewExecution
from runner.result import Result
from runner.tariff import tokens_of
from runner.transcript import clean

if TYPE_CHECKING:
    from runner.handle import Child

LONGEST = 20_000
"""Characters of what a user says at once."""

STOPPED = "I was stopped before I had an answer. Please send your message again if you still need one."
TOO_LATE = "I ran out of time before I had an answer. Please try again, or ask for less at once."
SO_FAR = "I ran out of time. This is what I have so far:"
NOTHING = "I have no answer to this. Please say it in other words."
FAILED = (
    "Something went wrong, and I could not answer. Please send your message again in a moment; if that does not help, tell "
    "whoever runs this assistant to look at execution {id}."
)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """Something that was said."""

    role: str
    """`user` or `assistant`."""
    content: str
    at: datetime
    tokens: int

    @classmethod
    def of_row(cls, row: Record) -> ChatMessage:
        """As it is stored; one whose tokens nobody has counted is estimated."""
        counted = row["token_count"]
        tokens = counted if counted is not None else _tokens(row["content"])
        return cls(row["role"], row["content"], moment(row["created_at"]), tokens)


def heard_of(new: NewExecution) -> NewChatMessage:
    """The message an execution is to answer: its task is what the user said."""
    assert new.user_id is not None
    text = new.task or ""
    return NewChatMessage(new_id(), new.user_id, text, _tokens(text), new.created_at, new.id)


def answer_of(execution: str, status: ExecutionStatus, result: Result | None) -> Answer:
    """What is said to the user whose message an execution was to answer."""
    text = clean(_spoken(execution, status, result))
    return Answer(execution, text, _tokens(text))


def spoken(child: Child) -> str:
    """The same, of an execution that has ended, as its caller sees it."""
    return answer_of(child.id, ExecutionStatus(child.status), child.result).content


def _spoken(execution: str, status: ExecutionStatus, result: Result | None) -> str:
    found = result.text.strip() if result is not None and result.output is not None else ""
    match status:
        case ExecutionStatus.COMPLETED:
            return found or (result.summary.strip() if result is not None else "") or NOTHING
        case ExecutionStatus.TIMED_OUT:
            return f"{SO_FAR}\n\n{found}" if found else TOO_LATE
        case ExecutionStatus.CANCELLED:
            return STOPPED
        case _ if result is not None and result.signals.get("worded") and found:
            return found  # it says itself what went wrong, in words for a person
        case _:
            return FAILED.format(id=execution)


def _tokens(text: str) -> int:
    return tokens_of(len(text.encode()))
