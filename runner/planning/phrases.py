"""What is said to a person without a model: in their language where we know it, else in English."""

from __future__ import annotations

from collections.abc import Mapping

_PHRASES: Mapping[str, Mapping[str, str]] = {
    "en": {
        "nothing": "There is nothing I can do about this. Please say in other words what you need.",
        "count": "Completed {done}/{all}.",
        "no_plan": "I could not work out how to do this. Please try again, or say it in other words.",
        "denied": "I may not do this for you: {reasons}.",
        "capability": "`{agent}` is not part of what you have enabled",
        "connection": "`{agent}` needs your {connection} account to be connected",
    },
    "he": {
        "nothing": "אין לי מה לעשות בנושא הזה. נסו לנסח מחדש מה אתם צריכים.",
        "count": "הושלמו {done}/{all}.",
        "no_plan": "לא הצלחתי להבין איך לבצע את זה. נסו שוב, או נסחו אחרת.",
        "denied": "אין לי הרשאה לעשות זאת עבורכם: {reasons}.",
        "capability": "`{agent}` אינו כלול במה שהפעלתם",
        "connection": "`{agent}` דורש חיבור לחשבון {connection} שלכם",
    },
}


def phrase(name: str, locale: str, **values: object) -> str:
    """A phrase in the language of a locale."""
    language = _PHRASES.get(locale.partition("-")[0].lower(), _PHRASES["en"])
    return language[name].format(**values)
