"""Kubernetes label selectors: `app=checkout,tier!=db,zone in (a,b),!canary`.

Owns the grammar and what it selects; knows no objects. Invariant: a part that cannot be read is refused, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from outrider_sre.errors import BadRequestError

ACCEPTED = "accepted: `app=a`, `app!=a`, `app in (a,b)`, `app notin (a,b)`, `app`, `!app`, with commas between"

_KEY = r"[A-Za-z0-9][\w./-]*"
_VALUE = r"[\w.-]*"
_SPLIT = re.compile(r",(?![^(]*\))")
_COMPARES = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_IN_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EXISTS = re.compile(rf"(?P<absent>!?)\s*(?P<key>{_KEY})")

Condition = Callable[[Mapping[str, str]], bool]


def parse_label_selector(text: str) -> Condition:
    """A test for labels; the empty selector lets everything through."""
    parts = [part.strip() for part in _SPLIT.split(text)] if text.strip() else []
    conditions = [_condition(part) for part in parts]
    return lambda labels: all(condition(labels) for condition in conditions)


def _condition(part: str) -> Condition:
    if found := _COMPARES.fullmatch(part):
        key, value, equal = found["key"], found["value"], found["operator"] != "!="
        return lambda labels: (labels.get(key) == value) == equal
    if found := _IN_SET.fullmatch(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        inside = found["operator"] == "in"
        return lambda labels: (labels.get(key) in values) == inside
    if found := _EXISTS.fullmatch(part):
        key, present = found["key"], not found["absent"]
        return lambda labels: (key in labels) == present

    raise BadRequestError(f"cannot read the label selector at `{part}`", ACCEPTED)
