"""The rows of a tree in columns, as rich draws them. Importing this module imports rich, so plain lines do not.

Owns the widths and the styles. Pure. Invariant: no line is wider than the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from server.cli.show.tree_rows import Row
from server.wording import ENDED

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

NAME_COLUMN, WIDE, TINY = 44, 100, 40
"""The widest name column, and the widths below which tokens and cost, or ids and all figures, are left out."""

TASK_ROOM, TASK_LEAST = 0.4, 10
"""How much of the room for words a task may take, and how few characters of one are still worth showing."""


def drawn(rows: Sequence[Row], width: int) -> list[Text]:
    """The rows as lines of exactly the width of the screen or less."""
    widest = max((cell_len(_head(row)) for row in rows if row.name), default=0)
    name_width = min(widest, NAME_COLUMN, width, max(12, width // 2 if width >= WIDE else width // 3))
    figures = [("elapsed", 8), ("tokens", 10), ("price", 10)]
    figures = figures[:0] if width < TINY else figures[:1] if width < WIDE else figures
    id_width = max((len(row.id) for row in rows), default=0) if width >= TINY else 0
    room = max(0, width - name_width - 2 - sum(size + 1 for _, size in figures) - 1 - (id_width and id_width + 2))
    longest = max((cell_len(row.task) for row in rows), default=0)
    task_width = min(longest, int(room * TASK_ROOM))
    task_width = task_width if task_width >= min(TASK_LEAST, longest) else 0
    columns = Columns(name_width, id_width, task_width, room - (task_width and task_width + 2), tuple(figures))
    return [_line(row if len(figures) > 1 else _in_words(row), columns) for row in rows]


@dataclass(frozen=True, slots=True)
class Columns:
    """How wide each is; 0 for one that is left out."""

    name: int
    id: int
    task: int
    words: int
    figures: tuple[tuple[str, int], ...]

    @property
    def texts(self) -> int:
        """The id, the task and the words together."""
        return self.words + sum(size + 2 for size in (self.id, self.task) if size)

    @property
    def whole(self) -> int:
        """All of them, with the gaps between."""
        return self.name + 2 + self.texts + sum(size + 1 for _, size in self.figures)


def _in_words(row: Row) -> Row:
    """The last line of a tree that has no columns for its figures."""
    if row.icon or not row.tokens or not row.name:
        return row
    return replace(row, words=" · ".join(part for part in (row.words, row.tokens, row.price) if part))


def _head(row: Row) -> str:
    return f"{row.guides}{row.icon} {row.name}" if row.icon else f"{row.guides}{row.name}"


def _line(row: Row, columns: Columns) -> Text:
    line = Text(no_wrap=True)
    if not row.name:
        line.append(row.guides, "dim")
        size = columns.whole - cell_len(row.guides)
        return line.append(_fit(row.words, size), STYLES.get(row.status, "dim"))
    head = _fit(_head(row), columns.name)
    line.append(head[: len(row.guides)], "dim")
    icon_end = len(row.guides) + len(row.icon)
    line.append(head[len(row.guides) : icon_end], STYLES.get(row.status, ""))
    line.append(set_cell_size(head[icon_end:], columns.name - cell_len(head[:icon_end])), "" if row.icon else "bold")
    room = columns.texts
    if row.id:  # the last line and what is counted have the room for themselves
        for text, size in ((row.id, columns.id), (row.task, columns.task)):
            if size:
                line.append("  " + set_cell_size(_fit(text, size), size), "dim")
        room = columns.words
    quiet = row.status in ENDED - {"failed", "timed_out", "blocked"}
    words = row.words or ("" if columns.task else row.task)
    line.append("  " + set_cell_size(_fit(words, room), room), "dim" if quiet or not row.status else "")
    for column, size in columns.figures:
        value: str = getattr(row, column)
        line.append(" " + value.rjust(size), "dim")
    line.rstrip()
    return line


def _fit(text: str, size: int) -> str:
    return text if cell_len(text) <= size else set_cell_size(text, max(0, size - 1)).rstrip() + "…"
