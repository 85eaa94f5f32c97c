"""Rows and columns as aligned text: cut to the terminal's width on a terminal, whole everywhere else. Knows no data."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

from server.cli.terminal.output import one_line

GAP = "  "
LEAST, READABLE = 8, 24
"""Characters a column keeps, however narrow the terminal is, and those it has before another is left out for it."""


def aligned(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], *, heading: bool = True, spare: Sequence[str] = ()
) -> str:
    """The rows below their heading; figures to the right, text to the left.

    On a terminal that is too narrow, the columns in `spare` are left out, the first of them first.
    """
    cells = [[_shown(value) for value in row] for row in rows]
    lines = [list(columns), *cells] if heading else cells
    widths = [max((width_of(line[index]) for line in lines), default=0) for index in range(len(columns))]
    figures = [bool(rows) and all(isinstance(row[index], int | float) for row in rows) for index in range(len(columns))]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns
        kept = _kept(columns, widths, room, spare)
        lines = [[line[index] for index in kept] for line in lines]
        figures = [figures[index] for index in kept]
        widths = _narrowed([widths[index] for index in kept], room)
    return "\n".join(_line(line, widths, figures) for line in lines)


def width_of(text: str) -> int:
    """The columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _kept(columns: Sequence[str], widths: Sequence[int], room: int, spare: Sequence[str]) -> list[int]:
    """The columns that are shown: as many as there is room for, each as wide as is worth reading."""
    kept = list(range(len(columns)))
    for name in spare:
        if sum(min(widths[index], READABLE) + len(GAP) for index in kept) <= room:
            break
        kept.remove(columns.index(name))
    return kept


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(str(value))


def _narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Take from the widest column until the line fits."""
    narrowed = list(widths)
    while sum(narrowed) + len(GAP) * (len(narrowed) - 1) > room and max(narrowed, default=0) > LEAST:
        narrowed[narrowed.index(max(narrowed))] -= 1
    return narrowed


def _line(cells: Sequence[str], widths: Sequence[int], figures: Sequence[bool]) -> str:
    shown = []
    for cell, width, figure in zip(cells, widths, figures, strict=True):
        cut = _cut(cell, width)
        blank = " " * (width - width_of(cut))
        shown.append(blank + cut if figure else cut + blank)
    return GAP.join(shown).rstrip()


def _cut(cell: str, width: int) -> str:
    if width_of(cell) <= width:
        return cell
    if cell.isascii():
        return cell[: width - 1] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(cell, width - 1).rstrip() + "…"
