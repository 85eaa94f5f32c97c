"""The language somebody writes in, as far as letters tell: an answer is given in the same."""

from __future__ import annotations

import unicodedata

_SCRIPTS = {"HEBREW": "he", "ARABIC": "ar", "CYRILLIC": "ru", "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja"}
"""Scripts that one language is meant by; a user's own locale decides where several share one."""


def language_of(text: str, otherwise: str = "en") -> str:
    """The language of a text by the script of most of its letters, else that of the user's locale."""
    known = otherwise.partition("-")[0].lower() or "en"
    counts: dict[str, int] = {}
    for letter in text[:2000]:
        if letter.isalpha():
            script = unicodedata.name(letter, "").partition(" ")[0]
            counts[script] = counts.get(script, 0) + 1
    if not counts:
        return known
    script = max(counts, key=lambda each: counts[each])
    if script == "LATIN" and known in _SCRIPTS.values():
        return "en"
    return known if script == "LATIN" else _SCRIPTS.get(script, known)
