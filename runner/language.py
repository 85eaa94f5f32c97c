"""The language somebody writes in, as far as letters tell: an answer is given in the same."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_SCRIPTS: dict[str, tuple[str, ...]] = {
    "HEBREW": ("he", "yi"),
    "ARABIC": ("ar", "fa", "ur", "ps", "ckb", "sd", "ug"),
    "CYRILLIC": ("ru", "uk", "be", "bg", "mk", "sr", "kk", "ky", "mn", "tg"),
    "GREEK": ("el",),
    "ARMENIAN": ("hy",),
    "GEORGIAN": ("ka",),
    "DEVANAGARI": ("hi", "mr", "ne"),
    "BENGALI": ("bn", "as"),
    "TAMIL": ("ta",),
    "THAI": ("th",),
    "HANGUL": ("ko",),
    "HIRAGANA": ("ja",),
    "KATAKANA": ("ja",),
    "CJK": ("zh", "ja"),
}
"""The languages that are written in a script; the first is meant unless the user's own is among them."""
_ADDRESS = re.compile(r"(?<!\S)\S*(?:://|@|www\.)\S*")
"""Links and addresses: they are in Latin letters in whatever language somebody writes."""
_LETTERS = 2_000
"""Characters that are looked at."""


def language_of(text: str, otherwise: str = "en") -> str:
    """The language of a text by the script of most of its letters, else that of the user's locale."""
    known = otherwise.partition("-")[0].lower() or "en"
    scripts: Counter[str] = Counter()
    for letter, times in Counter(_ADDRESS.sub(" ", text[:_LETTERS])).items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "").partition(" ")[0]] += times
    if not scripts:
        return known
    script = "HIRAGANA" if scripts["HIRAGANA"] and scripts["CJK"] else max(scripts, key=lambda each: scripts[each])
    if script == "LATIN":
        elsewhere = any(known in languages for languages in _SCRIPTS.values()) and "-latn" not in otherwise.lower()
        return "en" if elsewhere else known
    languages = _SCRIPTS.get(script, (known,))
    return known if known in languages else languages[0]
