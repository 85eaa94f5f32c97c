"""Plain scalars: what an unquoted word of the configuration file is.

Owns: which words are numbers, flags and null. Must not know: where a word stands.
Invariant: only `true`, `false`, `null` and decimal numbers are anything but text; `no`, `on`, `1:30` and dates stay text.
"""

import re

NULLS = frozenset({"", "~", "null", "Null", "NULL"})

_FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})?(?:\.[0-9]{1,30})?(?:[eE][-+]?[0-9]{1,3})?")


def plain(text: str) -> str | int | float | bool | None:
    """Return what an unquoted text stands for. Numbers beyond 18 digits stay text, because no setting can hold them."""
    if text in NULLS:
        return None
    if text in _FLAGS:
        return _FLAGS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and any(character.isdigit() for character in text.partition("e")[0].partition("E")[0]):
        return float(text)
    return text
