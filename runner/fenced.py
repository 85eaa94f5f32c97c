"""The JSON in an answer that is text: the whole of it, the one fenced block it has, or a value that stands in prose.

Owns reading what a model wrote, for planners, workers, classifiers and every answer with a schema. Pure. Invariant:
whatever a text holds, reading it takes time in proportion to its length, and what comes out can be stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from pydantic_core import from_json

from runner.transcript import clean

FENCE = "```"

DEEPEST = 200
"""Brackets in brackets: what is nested deeper is not read."""
PASSES = 3
"""How often the length of a text is looked through for values, at most: brackets that lead nowhere are given up."""

_BEGINS = re.compile(r'\{(?=\s*+["}])|\[(?=\s*+[\[\]{"\-0-9tfn])')
"""Where a value may begin; other brackets are prose."""
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)|[{}\[\]]', re.DOTALL)
"""A string inside a value, without its last quote where it never ends, or a bracket."""
_MENDED = ("\\u", "NaN", "Infinity")
"""What JSON of some libraries holds that is none, or that cannot be stored."""
_CLOSES = {"{": "}", "[": "]"}


def json_of(text: str) -> Any:
    """The value an answer spells as a whole or in its fence; raises ValueError with the reason when it spells none."""
    lines = text.split("\n")  # and nowhere else: no other line break can stand inside a JSON text and be left out
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    if len(fences) == 2:  # where one begins, and where it ends
        text = "\n".join(lines[fences[0] + 1 : fences[1]])
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        meant = text.lstrip().startswith(("{", "[", '"'))  # where JSON was tried, the place helps
        raise ValueError(f"it is not JSON: {error}" if meant else "it is not JSON") from None


def read_json(text: str, fits: Callable[[Any], bool] = lambda _: True) -> Any:
    """The value that fits: the one an answer spells, else the longest object or array in its prose; None without one."""
    try:
        value = json_of(text)
    except ValueError:
        value = None
    if value is not None and fits(value):
        return value
    found: Any = None
    longest = 0
    for value, length in _values(text):
        if length > longest and fits(value):
            found, longest = value, length
    return found


def _values(text: str) -> Iterator[tuple[Any, int]]:
    """The objects and arrays in a text, and how long each is written. What cannot be read may hold some that can."""
    left, at = PASSES * len(text), 0
    while left > 0 and (begins := _BEGINS.search(text, at)) is not None:
        start = begins.start()
        end, depth = _end_of(text, start)
        left -= max(1, abs(end) - start)
        if depth > DEEPEST:
            return
        value = _decoded(text[start:end]) if end > 0 else None
        at = start + 1 if value is None else end
        if value is not None:
            yield value, end - start


def _end_of(text: str, start: int) -> tuple[int, int]:
    """Where the bracket at a place is closed, and how deep others stand in it; below zero how far was looked in vain."""
    waiting: list[str] = []
    deepest = 0
    for token in _TOKEN.finditer(text, start):
        mark = token[0]
        if mark in _CLOSES:
            waiting.append(_CLOSES[mark])
            deepest = max(deepest, len(waiting))
        elif mark[0] == '"':
            if not token[1]:
                break
            continue
        elif mark != waiting.pop():
            return -token.end(), deepest
        if not waiting:
            return token.end(), deepest
        if deepest > DEEPEST:
            return -token.end(), deepest
    return -len(text), deepest


def _decoded(text: str) -> Any:
    """The value of a text; None where it is none. What no store takes is replaced: half a character, no number by null."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        if not any(each in text for each in _MENDED):
            return None
    try:
        return json.loads(clean(json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None
