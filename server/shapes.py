"""One shape per status, the same in every view of executions; colour only repeats it."""

from __future__ import annotations

SHAPES = {
    "pending": "○",
    "running": "◐",
    "completed": "●",
    "partial": "◕",
    "failed": "✕",
    "timed_out": "◷",
    "cancelled": "⊘",
    "blocked": "▣",
    "skipped": "◌",
}


def shape(status: str, outcome: str | None = None) -> str:
    """The shape of a status. A completed execution with outcome `partial` has its own."""
    return SHAPES.get("partial" if status == "completed" and outcome == "partial" else status, "?")
