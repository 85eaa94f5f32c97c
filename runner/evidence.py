"""Evidence: the calls an answer cites, and which of them were never made.

Owns what is taken for the handle of a call, look-alikes included. A handle that no call of the tree has, nor one of those
it continues, is `unverified`: the reader of the answer is told. Pure; knows no rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from runner.look_alikes import folded

UNVERIFIED = "unverified"
"""Under this name the metadata of a result has the handles that no call has."""
NAMED = 5
"""Handles that a remark names; of more it has the number."""
MOST = 100
"""Handles of one answer that are looked up."""
LEAST_PREFIX = 14
"""Characters of a handle that may stand for one that begins so: people and models shorten them."""

_HANDLE = re.compile(
    r"(?<![\w-])(?:toolu_[\w-]{2,}|chatcmpl-tool-\w{4,}|call_[a-z0-9]{16,}(?![\w-]))"
    r"|\[call[\s:]+((?=[\w-]*[\d_-])[\w-]+|\w{12,})\s*\]"
)


def handles_of(text: str) -> list[str]:
    """The handles that a text cites, each once, as they are written."""
    if text.isascii():
        read, places = text.lower(), None
    else:
        letters = [(letter, at) for at, each in enumerate(text) for letter in folded(each)]
        read, places = "".join(letter for letter, _ in letters), [at for _, at in letters]
    found: dict[str, None] = {}
    for match in _HANDLE.finditer(read):
        start, end = match.span(1) if match[1] else match.span()
        written = text[start:end] if places is None else text[places[start] : places[end - 1] + 1]
        found[written.rstrip("-_")] = None
    return list(found)[:MOST]


def unmade(handles: Sequence[str], calls: Collection[str]) -> list[str]:
    """The handles that belong to none of these calls."""
    return [each for each in handles if not any(_means(each, call) for call in calls)]


def _means(handle: str, call: str) -> bool:
    return call == handle or (len(handle) >= LEAST_PREFIX and call.startswith(handle))


def remark(handles: Sequence[str]) -> str:
    """What the reader of an answer is told of handles that no call has."""
    named, more = ", ".join(f"`{each[:80]}`" for each in handles[:NAMED]), len(handles) - NAMED
    return f"unverified evidence: no call of this tree is {named}" + (f" and {more} more" if more > 0 else "")
