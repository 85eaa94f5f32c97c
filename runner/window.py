"""Windows: how much of what came before is still shown. One pure function for every list that grows.

Owns the order of the rules and the measures of the history of a conversation. Must not know: what is in a window.
Invariant: what is kept is never reordered, and of what is left out everything is older than what is kept, or too old.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Window:
    """How much is shown; what is None does not matter."""

    max_age: timedelta | None = None
    max_entries: int | None = None
    max_tokens: int | None = None
    min_keep: int = 0
    """As many of the newest stay, whatever the other rules say."""


HISTORY = Window(timedelta(hours=24), max_entries=20, max_tokens=4000)
"""What an assistant is shown of its conversation with a user."""


def windowed(
    entries: Sequence[Entry],
    window: Window,
    tokens: Callable[[Entry], int] = lambda _: 0,
    age: Callable[[Entry], timedelta] = lambda _: timedelta(),
) -> Sequence[Entry]:
    """The entries of a window, of entries given oldest first: what is too old goes, then all but the newest, then the
    oldest until the rest fits the tokens.
    """
    kept = [entry for entry in entries if window.max_age is None or age(entry) <= window.max_age]
    if window.max_entries is not None:
        kept = kept[max(0, len(kept) - window.max_entries) :]
    if window.max_tokens is not None:
        sizes = [tokens(entry) for entry in kept]
        while sum(sizes) > window.max_tokens:
            del kept[0], sizes[0]
    return kept if len(kept) >= window.min_keep else entries[-window.min_keep :]
