"""The rows of a drawn tree: which executions are shown, which are folded, and what a row says. Pure.

Owns folding and the window. Must not know: how rows get onto a screen, or where the tree came from.
Invariant: a window is never longer than asked for, costs what its rows cost however large the tree is, shows trouble and
work before anything else, and says how much it does not show.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from server.cli.show.tree_node import Sums, TreeNode
from server.cli.show.wording import waits
from server.shapes import shape
from server.wording import count, duration, price, tokens

COUNTED = ("failed", "timed_out", "blocked", "running", "pending", "completed", "cancelled", "skipped")
"""The order in which hidden executions are counted: what matters most survives a narrow terminal."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a name with its guides, what it does, and three figures."""

    guides: str
    name: str
    words: str
    status: str = ""
    icon: str = ""
    id: str = ""
    task: str = ""
    elapsed: str = ""
    tokens: str = ""
    price: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw: at what moment, and with finished subtrees folded or not."""

    now: float
    fold: bool = True


def rows_of(root: TreeNode, now: float, *, fold: bool, most: int | None = None) -> list[Row]:
    """The rows of a tree, its totals last; with `most`, a window of at most so many."""
    look = Look(now, fold)
    room = sys.maxsize if most is None else max(1, most - 1)
    return [*_rows(root, look, ("", ""), room), totals(root, now)]


def _rows(node: TreeNode, look: Look, guides: tuple[str, str], most: int) -> Iterator[Row]:
    """The rows of a subtree, at most so many; no more nodes are looked at than rows are made."""
    own, below = guides
    fits = node.lines(fold=look.fold) <= most
    folded = bool(node.children) and ((look.fold and node.is_folded) or most == 1)
    yield _row(node, look, own, folded=folded)
    notes = node.notes if fits else node.notes[: most - 1 - bool(node.children)]
    yield from (Row(below, "", f"! {remark}", "failed") for remark in notes)
    if folded:
        return
    room = most - 1 - len(notes)
    if fits:
        yield from _children(node.children, look, below, [room] * len(node.children))
    elif len(node.children) <= room:
        yield from _children(node.children, look, below, _grants(node.children, look, room))
    elif room > 0:
        shown = node.first_to_see(room - 1)
        yield from _children(shown, look, below, _grants(shown, look, room - 1), closed=False)
        yield _more(node, shown, look, below + "└─ ")


def _children(
    shown: Sequence[TreeNode], look: Look, below: str, grants: Sequence[int], *, closed: bool = True
) -> Iterator[Row]:
    for position, (child, grant) in enumerate(zip(shown, grants, strict=True)):
        last = closed and position == len(shown) - 1
        turn, on = ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield from _rows(child, look, (below + turn, below + on), grant)


def _grants(shown: Sequence[TreeNode], look: Look, room: int) -> list[int]:
    """How many rows each gets: one, and an even part of what is left to those that need more."""
    needs = [child.lines(fold=look.fold) for child in shown]
    left, hungry = room - len(shown), sum(need > 1 for need in needs)
    grants = []
    for need in needs:
        more = min(need - 1, left // hungry) if need > 1 else 0
        left, hungry = left - more, hungry - (need > 1)
        grants.append(1 + more)
    return grants


def _more(node: TreeNode, shown: Sequence[TreeNode], look: Look, guides: str) -> Row:
    """The line that stands for the children there is no room for, and for what is below them."""
    hidden = node.sums.copy()
    hidden.less(Sums({node.status: 1}, 1, node.tokens, node.cost_usd))
    for child in shown:
        hidden.less(child.sums)
    return Row(guides, f"… {hidden.executions:,} more", ", ".join(_numbers(hidden, COUNTED)), **_figures(hidden, look))


def _numbers(sums: Sums, statuses: Iterable[str]) -> list[str]:
    return [f"{number:,} {_told(status)}" for status in statuses if (number := sums.statuses.get(status, 0)) > 0]


def _row(node: TreeNode, look: Look, guides: str, *, folded: bool) -> Row:
    words = words_of(node)
    if folded:
        below = node.sums.executions - 1
        words = f"with {count(below, 'agent')}" + (f" · {words}" if words else "")
    icon = shape(node.status, node.outcome)
    sums = node.sums if folded else Sums(tokens=node.tokens, cost_usd=node.cost_usd, pricing=node.pricing)
    shown = {"id": node.short, "task": node.task, **_figures(sums, look, node)}
    return Row(guides, node.agent, words, node.status, icon, **shown)


def _figures(sums: Sums, look: Look, timed: TreeNode | None = None) -> dict[str, str]:
    return {
        "elapsed": duration(timed.elapsed(look.now)) if timed is not None and timed.began is not None else "",
        "tokens": tokens(sums.tokens) if sums.tokens else "",
        "price": price(max(0.0, sums.cost_usd), sums.pricing) if sums.pricing else "",  # sums of fractions may miss zero
    }


def _told(status: str) -> str:
    return status.replace("_", " ")


def words_of(node: TreeNode) -> str:
    """What an execution does, or how it ended, in words."""
    match node.status:
        case "running":
            return "cancelling" if node.cancel_requested else asked_of(node) or node.action
        case "pending":
            return node.action or "waiting for a slot"
        case "completed":
            partial = f"partial ({node.reason})" if node.outcome == "partial" else ""
            said = _said_of(node)
            return ": ".join(part for part in (partial, said) if part)
        case "failed" | "timed_out":
            told = _told(node.status)
            return f"{told}: {node.error}" if node.error else told
        case "blocked" | "skipped":
            return f"{node.status}: {node.reason}" if node.reason else node.status
        case _:
            return node.status


def _said_of(node: TreeNode) -> str:
    """What it said; who says nothing itself, such as a chain, has its last agent's words."""
    while not node.said and node.children:
        node = node.children[-1]
    return node.said


def asked_of(node: TreeNode) -> str:
    """What a person has to allow, and how; nothing when it waits for none. The id of the row is enough for one call."""
    if len(node.asked) == 1:
        return waits(next(iter(node.asked.values())), node.short)
    return "; ".join(waits(tool, approval) for approval, tool in node.asked.items())


def totals(root: TreeNode, now: float) -> Row:
    """The last line: everything together."""
    sums = root.sums
    parts = [
        count(sums.executions, "execution"),
        *_numbers(sums, ("running", "pending", "failed", "timed_out", "cancelled")),
    ]
    figures = _figures(sums, Look(now), root)
    return Row("", "total", " · ".join(parts), **{**figures, "tokens": figures["tokens"] or tokens(0)})
