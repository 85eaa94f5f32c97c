"""Effects: whether a tool call may be repeated, and the result of one whose outcome is unknown. Pure.

Owns the rule, its texts, and the status of a call. Must not know: servers, rows or models.
Invariant: a call that may have changed something is never repeated by Outrider, and never reported as merely failed.
"""

from __future__ import annotations

from runner.tools.protocol import ToolResult

REPEATABLE = frozenset({"read_only", "idempotent"})
"""Repeating them is harmless. `at_most_once` and `ask` are not among them."""

UNKNOWN = "whether it took effect is unknown"
CHECK_FIRST = "do not repeat it blindly: first find out what it did, with a tool that only reads"

NOT_BEGUN = ToolResult(
    "error: not carried out: it was stopped before it began", is_error=True, error_type="cancelled", ran=False
)
"""The result of a call that was certainly never sent."""


def may_repeat(effect: str) -> bool:
    """Whether a call that was cut off may be repeated without asking."""
    return effect in REPEATABLE


def without_answer(kind: str, happened: str, effect: str, hint: str) -> ToolResult:
    """The result of a call that was sent and has no usable answer; `hint` is for calls that may be repeated."""
    if may_repeat(effect):
        return ToolResult(f"error: {happened}\nhint: {hint}", is_error=True, error_type=kind, ran=False)
    text = f"error: {happened}; {UNKNOWN}\nhint: {CHECK_FIRST}"
    return ToolResult(text, is_error=True, error_type=kind, uncertain=True, ran=False)


def cut_short(effect: str) -> ToolResult:
    """The result of a call that was interrupted: by a cancel, a deadline, or the end of its process."""
    return without_answer("cancelled", "stopped before it had a result", effect, "call it again if it is still needed")


INTERRUPTED = without_answer(
    "interrupted",
    "the service stopped while this call was under way",
    "at_most_once",
    "call it again if it is still needed",
)
"""The result of a call that had started when its process died, and must not be repeated."""


def status_of(result: ToolResult) -> str:
    """The status of a call: `completed`, `failed` or `unknown`."""
    if result.uncertain:
        return "unknown"
    return "failed" if result.is_error else "completed"
