"""One shape for each status, the same wherever executions are shown; colour only adds to it."""

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
    """The shape of a status; a completed execution with a partial outcome has its own."""
    return SHAPES.get("partial" if status == "completed" and outcome == "partial" else status, "?")
