"""An answer that fits the terminal: its long lists are folded, evidence first, and a line says how to see the rest.

Owns which lists are folded, and how far. Must not know: whose answer it is, or how Markdown is drawn; it is given heights.
Invariants: only items of lists are left out, and the line in their place says how many; an answer that fits stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from runner.result import handles_of

if TYPE_CHECKING:
    from markdown_it.token import Token

KEPT = 3
"""Items that every list keeps."""
LONG = 12
"""Items from which on a list is folded that cites no call."""

Height = Callable[["Sequence[Token]"], int]
"""The lines that tokens take on the screen."""


@dataclass(slots=True)
class AnswerList:
    """A list at the top level of an answer."""

    tokens: Sequence[Token]
    """All of the answer."""
    begin: int
    end: int
    """Where it opens, and where it closes."""
    items: list[int] = field(default_factory=list)
    """Where each item begins."""
    shown: int = 0

    @property
    def is_evidence(self) -> bool:
        """Whether most of its items cite a call."""
        cited = sum(bool(handles_of(self._text(number))) for number in range(len(self.items)))
        return 2 * cited > len(self.items)

    def item(self, number: int) -> Sequence[Token]:
        """The tokens of one item."""
        ends = [*self.items[1:], self.end]
        return self.tokens[self.items[number] : ends[number]]

    def alone(self, number: int) -> Sequence[Token]:
        """One item as a list of its own."""
        return [self.tokens[self.begin], *self.item(number), self.tokens[self.end]]

    def _text(self, number: int) -> str:
        return "\n".join(token.content for token in self.item(number) if token.type == "inline")


def folded(tokens: Sequence[Token], room: int, height: Height, more: Callable[[int], Sequence[Token]]) -> Sequence[Token]:
    """The tokens with as many items left out as it takes to fit the room; `more` says how many are left out in a place."""
    over = height(tokens) - room
    if over <= 0:
        return tokens
    lists = _lists(tokens)
    cited = [each for each in lists if each.is_evidence and len(each.items) > KEPT]
    long = [each for each in lists if each not in cited and len(each.items) >= LONG]
    for each in (*reversed(cited), *reversed(long)):
        if over <= 0:
            break
        over -= _fold(each, over, height)
    return _without(tokens, lists, more)


def _fold(answer_list: AnswerList, over: int, height: Height) -> int:
    """Leave out items from the end until so many lines are saved; the lines that were."""
    saved = -2  # the line that says so, and the one above it
    while answer_list.shown > KEPT and saved < over:
        answer_list.shown -= 1
        saved += height(answer_list.alone(answer_list.shown))
    return saved


def _lists(tokens: Sequence[Token]) -> list[AnswerList]:
    found: list[AnswerList] = []
    opened: AnswerList | None = None
    for place, token in enumerate(tokens):
        if token.level == 0 and token.type in ("bullet_list_open", "ordered_list_open"):
            opened = AnswerList(tokens, place, place)
        elif opened is not None and token.level == 1 and token.type == "list_item_open":
            opened.items.append(place)
        elif opened is not None and token.level == 0:
            opened.end, opened.shown = place, len(opened.items)
            found.append(opened)
            opened = None
    return found


def _without(
    tokens: Sequence[Token], lists: Sequence[AnswerList], more: Callable[[int], Sequence[Token]]
) -> Sequence[Token]:
    """The tokens without the items that are not shown."""
    kept: list[Token] = []
    cuts = [each for each in lists if each.shown < len(each.items)]
    places = [0, *(place for each in cuts for place in (each.items[each.shown], each.end)), len(tokens)]
    for number, (begin, end) in enumerate(pairwise(places)):
        if number % 2:
            each = cuts[number // 2]
            kept += [tokens[each.end], *more(len(each.items) - each.shown)]
        else:
            kept += tokens[begin + (number > 0) : end]
    return kept
