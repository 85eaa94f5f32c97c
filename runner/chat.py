"""Chat: a user's messages and the answers to them, as rows and as text.

Pure. Owns the sentences used without a model, in the user's language if it is known, else in English, and the sentence for
each failure: every message gets an answer. It does not know when a message may be answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from db.clock import moment
from db.ids import new_id
from db.status import ExecutionStatus
from runner.messages import clean
from runner.origin import User
from runner.result import BUDGETS, OWN_WORDS, Outcome, Problem, Result
from runner.text import language_of, tokens_of

if TYPE_CHECKING:
    from db.rows.executions import NewExecution
    from db.rows.reads import Record
    from db.rows.users import NewChatMessage, UserAnswer
    from runner.snapshot import Snapshot

LONGEST = 20_000
"""Maximum characters of a user's message."""
_DATA = ("{", "[", "```")
"""Beginnings of an output that is data, not text for a person."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A message of a user or an assistant."""

    role: str
    """`user` or `assistant`."""
    content: str
    at: datetime
    tokens: int

    @classmethod
    def of_row(cls, row: Record) -> ChatMessage:
        """The message of a row; missing token counts are estimated."""
        counted = row["token_count"]
        tokens = counted if counted is not None else _tokens(row["content"])
        return cls(row["role"], row["content"], moment(row["created_at"]), tokens)


def heard_of(new: NewExecution) -> NewChatMessage:
    """The user's message that an execution answers: its task."""
    from db.rows.users import NewChatMessage  # late: the sentences of a chat need no database

    assert new.user_id is not None
    text = new.task or ""
    return NewChatMessage(new_id(), new.user_id, text, _tokens(text), new.created_at, new.id)


def language_for(message: str, user: User | None) -> str:
    """The language of the answer: that of the message's script, else that of the user's locale."""
    return language_of(message, user.locale if user is not None else "en")


def answer_of(execution: str, status: ExecutionStatus, result: Result | None, language: str) -> UserAnswer:
    """The answer to the user whose message an execution handled."""
    from db.rows.users import UserAnswer  # late, as above

    text = clean(_spoken(execution, status, result, language))
    return UserAnswer(execution, text, _tokens(text))


def spoken(child: Snapshot, locale: str = "en") -> str:
    """The same, from the snapshot of an ended execution, for a user of this locale."""
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
    """The text of an end that is meant for a person. Unless it completed, a summary without an output is the runtime's."""
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
    """Whether the agent timed out, so that its last text is no full answer."""
    if result is None or result.outcome is not Outcome.PARTIAL:
        return False
    return any(each.type == "timeout" for each in result.errors)


def _tokens(text: str) -> int:
    return tokens_of(len(text.encode()))


_PHRASES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "nothing": "There is nothing I can do about this. Please rephrase what you need.",
        "count": "Completed {done}/{all}.",
        "not_done": "Not done:",
        "no_plan": "I could not work out how to do this. Please try again, or rephrase it.",
        "denied": "I am not allowed to do this for you: {reasons}.",
        "capability": "`{agent}` is not part of what you have enabled",
        "connection": "`{agent}` needs your {connection} account to be connected",
        "not_startable": "`{agent}` cannot be started at the moment",
        "stopped": "I was stopped before I had an answer. Please send your message again if you still need one.",
        "too_late": "I ran out of time before I had an answer. Please try again, or ask for less at once.",
        "so_far": "I ran out of time. This is what I have so far:",
        "no_answer": "I have no answer to this. Please rephrase it.",
        "failed": "Something went wrong, and I could not answer. Please send your message again in a moment; if that does "
        "not help, tell the person who runs this assistant to look at execution {id}.",
        "declined": "My model declined to answer this. Please rephrase it.",
        "unreachable": "I cannot reach the model that answers you at the moment. Please send your message again in a few "
        "minutes; if that does not help, tell the person who runs this assistant to look at execution {id}.",
        "over_budget": "The budget for one message is used up, and I have no answer. Please ask for less at once.",
        "blocked": "I cannot do this: something it needs is missing or was not allowed. If you expected it to work, "
        "tell the person who runs this assistant to look at execution {id}.",
        "busy": "I am still answering your last message. Please send this one again when you have the answer.",
        "not_now": "I cannot take messages at the moment. Please send yours again in a few minutes.",
    },
    "he": {
        "nothing": "אין לי מה לעשות בנושא הזה. נסו לנסח מחדש מה אתם צריכים.",
        "count": "הושלמו {done}/{all}.",
        "not_done": "לא בוצע:",
        "no_plan": "לא הצלחתי להבין איך לבצע את זה. נסו שוב, או נסחו אחרת.",
        "denied": "אין לי הרשאה לעשות זאת עבורכם: {reasons}.",
        "capability": "`{agent}` אינו כלול במה שהפעלתם",
        "connection": "`{agent}` דורש חיבור לחשבון {connection} שלכם",
        "not_startable": "אי אפשר להפעיל כרגע את `{agent}`",
        "stopped": "נעצרתי לפני שהייתה לי תשובה. אם עדיין צריך, שלחו את ההודעה שוב.",
        "too_late": "נגמר לי הזמן לפני שהייתה לי תשובה. נסו שוב, או בקשו פחות בבת אחת.",
        "so_far": "נגמר לי הזמן. זה מה שיש לי עד כה:",
        "no_answer": "אין לי תשובה על זה. נסו לנסח אחרת.",
        "failed": "משהו השתבש ולא הצלחתי לענות. שלחו את ההודעה שוב בעוד רגע; אם זה לא עוזר, בקשו ממי שמפעיל את העוזר לבדוק "
        "את ההרצה {id}.",
        "declined": "המודל שלי סירב לענות על זה. נסו לנסח אחרת.",
        "unreachable": "אין לי כרגע גישה למודל שעונה לכם. שלחו את ההודעה שוב בעוד כמה דקות; אם זה לא עוזר, בקשו ממי שמפעיל "
        "את העוזר לבדוק את ההרצה {id}.",
        "over_budget": "נגמר התקציב שיש לי להודעה אחת, ואין לי תשובה. בקשו פחות בבת אחת.",
        "blocked": "אין באפשרותי לעשות את זה: משהו שנדרש לכך חסר או לא אושר. אם ציפיתם שזה יעבוד, בקשו ממי שמפעיל את העוזר "
        "לבדוק את ההרצה {id}.",
        "busy": "אני עדיין עונה להודעה הקודמת שלכם. שלחו את זו שוב אחרי שתקבלו תשובה.",
        "not_now": "אין באפשרותי לקבל הודעות כרגע. שלחו את ההודעה שוב בעוד כמה דקות.",
    },
}

_BY_CAUSE: Mapping[str, str] = {
    **dict.fromkeys(("no_model", "unavailable"), "unreachable"),
    **dict.fromkeys((*BUDGETS, "budget"), "over_budget"),
    **dict.fromkeys(("timeout", "time_budget"), "too_late"),
    **dict.fromkeys(("empty_answers", "max_iterations"), "no_answer"),
    **dict.fromkeys(("cancelled", "asked", "stopping"), "stopped"),
    **dict.fromkeys(("permission_denied", "denied", "approval_expired", "blocked"), "blocked"),
}
"""The sentence for a failure, by the type of its first error, or by the reason of its result."""

_AWAY = frozenset(("authentication", "permission", "not_found", "credit", "region"))
"""Codes of model errors that last until the operator fixes them."""


def phrase(name: str, locale: str, **values: object) -> str:
    """A phrase in the language of a locale."""
    language = _PHRASES.get(locale.partition("-")[0].lower(), _PHRASES["en"])
    return language[name].format(**values)


def failure_phrase(result: Result | None, locale: str, execution: str) -> str:
    """The sentence for an end without text for a person; `execution` is the id to look up."""
    return phrase(_failure(result), locale, id=execution)


def _failure(result: Result | None) -> str:
    if result is None:
        return "failed"
    first = result.errors[0] if result.errors else None
    if first is not None and first.type == "model":
        return "declined" if first.code == "refused" else "unreachable" if _is_away(first) else "failed"
    causes = [result.reason or "", first.type if first is not None else ""]
    if causes[0] not in BUDGETS:
        causes.reverse()  # the agent may have made up the reason
    known = next((_BY_CAUSE[each] for each in causes if each in _BY_CAUSE), None)
    return known or ("blocked" if result.outcome is Outcome.BLOCKED else "failed")


def _is_away(problem: Problem) -> bool:
    """Whether the model was unreachable, independent of the message."""
    return problem.recoverable or problem.code in _AWAY


_REFUSALS: Mapping[str, str] = {
    "busy": "busy",
    **dict.fromkeys(("no_model", "no_assistant", "stopping", "unavailable"), "not_now"),
}
"""The sentence for a refused message, by the kind of the refusal; other kinds are mistakes of the calling program."""


def refusal_phrase(kind: str, locale: str) -> str | None:
    """The sentence for a user whose message was refused, if there is one."""
    return phrase(_REFUSALS[kind], locale) if kind in _REFUSALS else None
