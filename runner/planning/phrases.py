"""What is said to a person without a model: in their language where we know it, else in English.

Owns the sentences, one table for plans, routes and chat, and which of them tells of which failure. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.result import BUDGETS, Outcome, Problem, Result

_PHRASES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "nothing": "There is nothing I can do about this. Please say in other words what you need.",
        "count": "Completed {done}/{all}.",
        "not_done": "Not done:",
        "no_plan": "I could not work out how to do this. Please try again, or say it in other words.",
        "denied": "I may not do this for you: {reasons}.",
        "capability": "`{agent}` is not part of what you have enabled",
        "connection": "`{agent}` needs your {connection} account to be connected",
        "not_startable": "`{agent}` cannot be started at the moment",
        "stopped": "I was stopped before I had an answer. Please send your message again if you still need one.",
        "too_late": "I ran out of time before I had an answer. Please try again, or ask for less at once.",
        "so_far": "I ran out of time. This is what I have so far:",
        "no_answer": "I have no answer to this. Please say it in other words.",
        "failed": "Something went wrong, and I could not answer. Please send your message again in a moment; if that does "
        "not help, tell the person who runs this assistant to look at execution {id}.",
        "declined": "My model declined to answer this. Please say it in other words.",
        "unreachable": "I cannot reach the model that answers you at the moment. Please send your message again in a few "
        "minutes; if that does not help, tell the person who runs this assistant to look at execution {id}.",
        "over_budget": "What I may spend on a message is used up, and I have no answer. Please ask for less at once.",
        "blocked": "I cannot do this: something that it needs is missing or was not allowed. If you expected it to work, "
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
"""Codes of a model's errors that last until the operator does something about them."""


def phrase(name: str, locale: str, **values: object) -> str:
    """A phrase in the language of a locale."""
    language = _PHRASES.get(locale.partition("-")[0].lower(), _PHRASES["en"])
    return language[name].format(**values)


def failure_phrase(result: Result | None, locale: str, execution: str) -> str:
    """What is said of an end that has no words for a person; `execution` is where the details are."""
    return phrase(_failure(result), locale, id=execution)


def _failure(result: Result | None) -> str:
    if result is None:
        return "failed"
    first = result.errors[0] if result.errors else None
    if first is not None and first.type == "model":
        return "declined" if first.code == "refused" else "unreachable" if _is_away(first) else "failed"
    causes = [result.reason or "", first.type if first is not None else ""]
    if causes[0] not in BUDGETS:
        causes.reverse()  # a reason may be an agent's own word
    known = next((_BY_CAUSE[each] for each in causes if each in _BY_CAUSE), None)
    return known or ("blocked" if result.outcome is Outcome.BLOCKED else "failed")


def _is_away(problem: Problem) -> bool:
    """Whether a model could not be asked, and the message is not to blame."""
    return problem.recoverable or problem.code in _AWAY


_REFUSALS: Mapping[str, str] = {
    "busy": "busy",
    **dict.fromkeys(("no_model", "no_assistant", "stopping", "unavailable"), "not_now"),
}
"""The sentence for a message that was not taken, by the kind of the refusal; others are the caller's own mistakes."""


def refusal_phrase(kind: str, locale: str) -> str | None:
    """What is said to a user whose message was not taken, if anything is."""
    return phrase(_REFUSALS[kind], locale) if kind in _REFUSALS else None
