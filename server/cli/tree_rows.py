"""The rows of a drawn tree: which executions are shown, which are folded, and what a row says. Pure.

Owns folding, the window and the columns. Must not know: how rows get onto a screen, or where the tree came from.
Invariant: failures, remarks and running work are never folded away; a window is never longer than asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from server.cli.tree_model import Node
from server.cli.wording import ENDED, count, duration, price, shape, tokens

STYLES = {
    "pending": "dim",
    "running": "yellow",
    "completed": "green",
    "failed": "bold red",
    "timed_out": "red",
    "cancelled": "magenta",
    "blocked": "red",
    "skipped": "dim",
}

NAME_COLUMN, NARROW, TINY = 44, 72, 40
"""The widest name column, and the widths below which tokens and cost, or all figures, are left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a name with its guides, what it does, and three figures."""

    guides: str
    name: str
    words: str
    status: str = ""
    icon: str = ""
    elapsed: str = ""
    tokens: str = ""
    price: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw: at what moment, with finished subtrees folded or not, with crowds gathered or not."""

    now: float
    fold: bool = True
    gather: bool = False


def rows_of(root: Node, now: float, *, fold: bool, most: int | None = None) -> list[Row]:
    """The rows of a tree, its totals last; with `most`, a window of at most so many."""
    rows = list(_rows(root, Look(now, fold), "", ""))
    if most is not None and len(rows) + 1 > most:
        rows = list(_rows(root, Look(now, fold, gather=True), "", ""))
    if most is not None and len(rows) + 1 > most:
        kept = max(0, most - 2)
        rows = [*rows[:kept], Row("", "", f"… {count(len(rows) - kept, 'more row')}")]
    return [*rows, totals(root, now)]


def _rows(node: Node, look: Look, guides: str, below: str) -> Iterable[Row]:
    folded = look.fold and node.children and _is_settled(node)
    yield _row(node, look, guides, folded=bool(folded))
    yield from (Row(below, "", f"! {remark}", "failed") for remark in node.notes)
    if folded:
        return
    shown, crowds = _gathered(node.children) if look.gather else (node.children, [])
    last = len(shown) + len(crowds) - 1
    for position, child in enumerate(shown):
        turn, on = ("└─ ", "   ") if position == last else ("├─ ", "│  ")
        yield from _rows(child, look, below + turn, below + on)
    for position, crowd in enumerate(crowds, start=len(shown)):
        yield _crowd(crowd, look, below + ("└─ " if position == last else "├─ "))


def _is_settled(node: Node) -> bool:
    """Whether nothing below needs to be seen: all of it succeeded, or was not needed."""
    return all(each.status in ("completed", "skipped") and not each.notes for each in node.subtree())


def _gathered(children: Sequence[Node]) -> tuple[list[Node], list[list[Node]]]:
    """Those to show one by one, and the crowds of which only the number matters."""
    settled = [child for child in children if _is_settled(child)]
    waiting = [child for child in children if child.status == "pending" and not child.notes]
    crowds = [crowd for crowd in (settled, waiting) if len(crowd) > 1]
    gathered = {child.id for crowd in crowds for child in crowd}
    return [child for child in children if child.id not in gathered], crowds


def _crowd(nodes: Sequence[Node], look: Look, guides: str) -> Row:
    status = nodes[0].status
    every = [each for node in nodes for each in node.subtree()]
    return Row(guides, f"{len(nodes)} {status}", "", status, shape(status), **_figures(every, look, nodes))


def _row(node: Node, look: Look, guides: str, *, folded: bool) -> Row:
    summed = list(node.subtree()) if folded else [node]
    words = words_of(node)
    if folded:
        words = f"with {count(len(summed) - 1, 'agent')}" + (f" · {words}" if words else "")
    icon = shape(node.status, node.outcome)
    return Row(guides, node.agent, words, node.status, icon, **_figures(summed, look, [node]))


def _figures(summed: Sequence[Node], look: Look, timed: Sequence[Node]) -> dict[str, str]:
    began = any(node.began is not None for node in timed)
    used = sum(node.tokens for node in summed)
    pricing = {kind for node in summed for kind in node.pricing}
    return {
        "elapsed": duration(max(node.elapsed(look.now) for node in timed)) if began else "",
        "tokens": tokens(used) if used else "",
        "price": price(sum(node.cost_usd for node in summed), pricing) if pricing else "",
    }


def words_of(node: Node) -> str:
    """What an execution does, or how it ended, in words."""
    match node.status:
        case "running":
            return "cancelling" if node.cancel_requested else node.action
        case "pending":
            return node.action or "waiting for a slot"
        case "completed":
            partial = f"partial ({node.reason})" if node.outcome == "partial" else ""
            return ": ".join(part for part in (partial, node.said) if part)
        case "failed" | "timed_out":
            told = node.status.replace("_", " ")
            return f"{told}: {node.error}" if node.error else told
        case "blocked" | "skipped":
            return f"{node.status}: {node.reason}" if node.reason else node.status
        case _:
            return node.status


def totals(root: Node, now: float) -> Row:
    """The last line: everything together."""
    every = list(root.subtree())
    parts = [count(len(every), "execution")]
    for status in ("running", "pending", "failed", "timed_out", "cancelled"):
        number = sum(node.status == status for node in every)
        if number:
            parts.append(f"{number:,} {status.replace('_', ' ')}")
    elapsed = _figures(every, Look(now), [root])
    return Row("", "total", " · ".join(parts), **{**elapsed, "tokens": elapsed["tokens"] or tokens(0)})


# -- columns -----------------------------------------------------------------------------------------------------------


def drawn(rows: Sequence[Row], width: int) -> list[Text]:
    """The rows as lines of exactly the width of the screen or less."""
    widest = max((cell_len(_head(row)) for row in rows if row.name), default=0)
    name_width = min(widest, NAME_COLUMN, max(12, width // 2))
    columns = [("elapsed", 8), ("tokens", 10), ("price", 10)]
    columns = columns[:0] if width < TINY else columns[:1] if width < NARROW else columns
    room = width - name_width - 2 - sum(size + 1 for _, size in columns) - 1
    return [_line(row, name_width, max(0, room), columns) for row in rows]


def _head(row: Row) -> str:
    return f"{row.guides}{row.icon} {row.name}" if row.icon else f"{row.guides}{row.name}"


def _line(row: Row, name_width: int, room: int, columns: Sequence[tuple[str, int]]) -> Text:
    line = Text(no_wrap=True)
    if not row.name:
        line.append(row.guides, "dim")
        size = name_width + 2 + room + sum(size + 1 for _, size in columns) - cell_len(row.guides)
        return line.append(_fit(row.words, size), STYLES.get(row.status, "dim"))
    head = _fit(_head(row), name_width)
    line.append(head[: len(row.guides)], "dim")
    icon_end = len(row.guides) + len(row.icon)
    line.append(head[len(row.guides) : icon_end], STYLES.get(row.status, ""))
    line.append(set_cell_size(head[icon_end:], name_width - cell_len(head[:icon_end])), "" if row.icon else "bold")
    quiet = row.status in ENDED - {"failed", "timed_out", "blocked"}
    line.append("  " + set_cell_size(_fit(row.words, room), room), "dim" if quiet or not row.status else "")
    for column, size in columns:
        value: str = getattr(row, column)
        line.append(" " + value.rjust(size), "dim")
    line.rstrip()
    return line


def _fit(text: str, size: int) -> str:
    return text if cell_len(text) <= size else set_cell_size(text, max(0, size - 1)).rstrip() + "…"
