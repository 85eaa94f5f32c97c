"""Numbers, times, statuses and events in words, the same for every face."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from server.shapes import SHAPES

ENDED = frozenset(SHAPES) - {"pending", "running", "partial"}


def duration(seconds: float) -> str:
    """`0.4s`, `12.3s`, `4m 05s`, `2h 10m`, `3d 4h`."""
    if seconds < 60:
        return f"{max(0.0, seconds):.1f}s"
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {left:02}s"


def count(number: int, noun: str) -> str:
    """`1 agent`, `1,234 agents`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def tokens(number: int) -> str:
    """`987 tok`, `12.3k tok`, `4.56M tok`."""
    if number < 10_000:
        return f"{number:,} tok"
    return f"{number / 1000:.1f}k tok" if number < 1_000_000 else f"{number / 1_000_000:.2f}M tok"


def price(usd: float, pricing: Collection[str]) -> str:
    """An estimated price; what was rehearsed or has no price says so instead of pretending to be free."""
    if not pricing:
        return "-"
    if set(pricing) == {"rehearsed"}:
        return "rehearsed"
    if set(pricing) <= {"unpriced", "rehearsed"}:
        return "unpriced"
    shown = f"${usd:.4f}" if usd < 1 else f"${usd:,.2f}"
    return f"≥{shown}" if set(pricing) & {"unpriced", "partly"} else f"~{shown}"


EXPIRED = "its question to a person has expired"
"""Of an execution that no process runs: the process that resumes it asks again."""


def happening(kind: str, payload: Mapping[str, Any]) -> str:
    """An event in words."""
    if kind == "execution.status":
        return str(payload.get("status", ""))
    if kind == "execution.progress":
        waits = payload.get("waiting_for")
        return str(payload.get("action") or (f"waiting for {waits}" if waits else "working"))
    if kind.startswith("approval."):
        return f"approval of {payload.get('tool', 'a call')} {payload.get('decision') or kind.removeprefix('approval.')}"
    if kind.startswith("upstream."):
        return f"upstream {payload.get('server', '')} {kind.removeprefix('upstream.')}"
    if kind.startswith("budget."):
        return f"budget {kind.removeprefix('budget.')}" + (f": {payload['what']}" if "what" in payload else "")
    if kind == "context.compacted":
        return f"conversation shortened from {tokens(payload['before_tokens'])} to {tokens(payload['after_tokens'])}"
    if kind.startswith("delivery."):
        return "reading results" if kind.endswith("consumed") else "something arrived"
    return _timeline(kind, payload)


def _timeline(kind: str, payload: Mapping[str, Any]) -> str:
    what = payload.get("kind")
    if what == "tool":
        tool = payload.get("tool", "a tool")
        if kind.endswith("created"):
            return f"calling {tool}"
        if payload.get("status") == "unknown":
            return f"{tool}: outcome unknown"
        return f"{tool} failed" if payload.get("is_error") else f"{tool} answered"
    if what == "dispatch":
        return f"dispatch of {payload.get('agent')} " + ("refused" if payload.get("refused") else "done")
    return "thinking" if what == "model" else kind
