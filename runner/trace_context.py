"""W3C trace context of a caller: validated in a request and forwarded to upstream servers.

Owns the validation. Invariant: only these three entries are forwarded, each only if it is well formed and short enough. An
invalid entry is dropped, because a trace must never fail the work it describes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

MAX_STATE, MAX_STATE_MEMBERS = 512, 32
MAX_BAGGAGE, MAX_BAGGAGE_MEMBERS = 8192, 64

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_STATE = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_TOKEN, _OCTETS = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_PAIR = re.compile(rf"[ \t]*{_TOKEN}[ \t]*=[ \t]*{_OCTETS}[ \t]*")
_PROPERTY = re.compile(rf"[ \t]*{_TOKEN}[ \t]*(=[ \t]*{_OCTETS}[ \t]*)?")


def trace_context(meta: Mapping[str, Any]) -> Mapping[str, str]:
    """The trace context in a caller's metadata; empty if there is no valid one."""
    taken: dict[str, str] = {}
    if _is_parent(parent := meta.get("traceparent")):
        taken["traceparent"] = parent
        if _is_state(state := meta.get("tracestate")):  # meaningless without its parent
            taken["tracestate"] = state
    if _is_baggage(baggage := meta.get("baggage")):
        taken["baggage"] = baggage
    return taken


def _is_parent(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and _PARENT.fullmatch(value) is not None


def _is_state(value: Any) -> TypeGuard[str]:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_STATE:
        return False
    members = [member for each in value.split(",") if (member := each.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members}
    return 0 < len(members) == len(keys) <= MAX_STATE_MEMBERS and all(map(_STATE.fullmatch, members))


def _is_baggage(value: Any) -> TypeGuard[str]:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_BAGGAGE:
        return False
    members = value.split(",")
    return len(members) <= MAX_BAGGAGE_MEMBERS and all(map(_is_member, members))


def _is_member(member: str) -> bool:
    pair, *properties = member.split(";")
    return _PAIR.fullmatch(pair) is not None and all(map(_PROPERTY.fullmatch, properties))
