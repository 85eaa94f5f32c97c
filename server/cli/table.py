"""Rows and columns as aligned text: cut to the terminal's width on a terminal, whole everywhere else. Knows no data."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

from server.cli.messages import one_line

GAP = "  "
LEAST = 8
"""Characters a column keeps, however narrow the terminal is."""


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, heading: bool = True) -> str:
    """The rows below their heading; figures to the right, text to the left."""
    cells = [[_shown(value) for value in row] for row in rows]
    lines = [list(columns), *cells] if heading else cells
    widths = [max((len(line[index]) for line in lines), default=0) for index in range(len(columns))]
    figures = [bool(rows) and all(isinstance(row[index], int | float) for row in rows) for index in range(len(columns))]
    if sys.stdout.isatty():
        widths = _narrowed(widths, shutil.get_terminal_size().columns)
    return "\n".join(_line(line, widths, figures) for line in lines)


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
        cut = cell if len(cell) <= width else cell[: width - 1] + "…"
        shown.append(cut.rjust(width) if figure else cut.ljust(width))
    return GAP.join(shown).rstrip()
