"""Chat: what a user says and is answered, from an execution to what is stored, and from a row to what is shown again. Pure.

Owns what a user is told of an end without an answer: they hear something in any case, in their language, and what to do
next. Must not know: when a message may be answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from db.clock import moment
from db.ids import new_id
from db.rows.executions import NewExecution
from db.rows.reads import Record
from db.rows.users import Answer, NewChatMessage
from db.status import ExecutionStatus
from runner.language import language_of
from runner.planning.phrases import failure_phrase, phrase
from runner.result import OWN_WORDS, Outcome, Result
from runner.tariff import tokens_of
from runner.transcript import clean
from runner.user import User

if TYPE_CHECKING:
    from runner.handle import Child

LONGEST = 20_000
"""Characters of what a user says at once."""
_DATA = ("{", "[", "```")
"""How an output begins that is not written for a person."""


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


def language_for(message: str, user: User | None) -> str:
    """The language a user is answered in: that of their message, as far as its letters tell, else that of their locale."""
    return language_of(message, user.locale if user is not None else "en")


def answer_of(execution: str, status: ExecutionStatus, result: Result | None, language: str) -> Answer:
    """What is said to the user whose message an execution was to answer."""
    text = clean(_spoken(execution, status, result, language))
    return Answer(execution, text, _tokens(text))


def spoken(child: Child, locale: str = "en") -> str:
    """The same, of an execution that has ended, as its caller sees it; for a user of this locale."""
    language = language_of(child.task, locale)
    return answer_of(child.id, ExecutionStatus(child.status), child.result, language).content


def _spoken(execution: str, status: ExecutionStatus, result: Result | None, language: str) -> str:
    if status is ExecutionStatus.CANCELLED:
        return phrase("stopped", language)
    words = _words(status, result)
    if words and (status is ExecutionStatus.TIMED_OUT or _ran_out_of_time(result)):
        return f"{phrase('so_far', language)}\n\n{words}"
    if words:
        return words
    if status is ExecutionStatus.TIMED_OUT:
        return phrase("too_late", language)
    if status is ExecutionStatus.COMPLETED and (result is None or result.outcome is Outcome.COMPLETED):
        return phrase("no_answer", language)
    return failure_phrase(result, language, execution)


def _words(status: ExecutionStatus, result: Result | None) -> str:
    """What an end says that is meant for a person. A summary without an output is our own, unless all went well."""
    if result is None:
        return ""
    if status in (ExecutionStatus.COMPLETED, ExecutionStatus.TIMED_OUT):
        whole = result.outcome is Outcome.COMPLETED
        return result.text.strip() if whole or result.output is not None else ""
    if result.signals.get(OWN_WORDS) and result.errors:
        is_data = not isinstance(result.output, str) or result.output.lstrip().startswith(_DATA)
        return (result.errors[0].message if is_data else result.why).strip()
    return result.text.strip() if result.signals.get("worded") and result.output is not None else ""


def _ran_out_of_time(result: Result | None) -> bool:
    """Whether the agent that handled the message was cut off, so that its last words are no whole answer."""
    if result is None or result.outcome is not Outcome.PARTIAL:
        return False
    return any(each.type == "timeout" for each in result.errors)


def _tokens(text: str) -> int:
    return tokens_of(len(text.encode()))
