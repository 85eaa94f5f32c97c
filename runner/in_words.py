"""Data in words: which part of it people are shown where there is room for one line. Pure.

Owns the choice. Invariant: what is shown stands in the data, word for word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import to_json


def in_words(value: Any) -> str:
    """What a value says: the `summary` in it, else the first text of more than a word, else all of it as JSON."""
    own = value.get("summary") if isinstance(value, Mapping) else None
    if isinstance(own, str) and own.strip():
        return own
    return next((text for text in _texts(value) if " " in text.strip()), None) or to_json(value).decode()


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value in their order, however deep they are."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping | list):
            left += reversed(list(each.values()) if isinstance(each, Mapping) else each)
