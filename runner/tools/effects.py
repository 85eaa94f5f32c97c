"""Effects: whether a tool call may be made once more, and what is said of one whose outcome nobody can know. Pure.

Owns the rule, the words and the status of a call. Must not know: servers, rows or models.
Invariant: what may have changed something is never made again by us, and never passes for merely failed.
"""

from __future__ import annotations

from runner.tools.protocol import ToolResult

REPEATABLE = frozenset({"read_only", "idempotent"})
"""Doing it twice is as good as doing it once. What is `at_most_once`, or for a human to decide, is not among them."""

UNKNOWN = "whether it took effect is unknown"
CHECK_FIRST = "do not repeat it blindly: first find out what it did, with a tool that only reads"

NOT_BEGUN = ToolResult(
    "error: not carried out: it was stopped before it began", is_error=True, error_type="cancelled", ran=False
)
"""The result of a call that certainly never left."""


def may_repeat(effect: str) -> bool:
    """Whether a call that was cut off may be made again without asking anybody."""
    return effect in REPEATABLE


def without_answer(kind: str, happened: str, effect: str, hint: str) -> ToolResult:
    """The result of a call that was made and has no answer anybody can use; `hint` for one that may be repeated."""
    if may_repeat(effect):
        return ToolResult(f"error: {happened}\nhint: {hint}", is_error=True, error_type=kind, ran=False)
    text = f"error: {happened}; {UNKNOWN}\nhint: {CHECK_FIRST}"
    return ToolResult(text, is_error=True, error_type=kind, uncertain=True, ran=False)


def cut_short(effect: str) -> ToolResult:
    """The result of a call that was stopped on its way: by a cancel, by a deadline, or with the process that made it."""
    return without_answer("cancelled", "stopped before it had a result", effect, "call it again if it is still needed")


INTERRUPTED = without_answer(
    "interrupted",
    "the service stopped while this call was under way",
    "at_most_once",
    "call it again if it is still needed",
)
"""The result of a call that had begun when its process went, and must not begin again."""


def status_of(result: ToolResult) -> str:
    """How a call ended: `completed`, `failed` or `unknown`."""
    if result.uncertain:
        return "unknown"
    return "failed" if result.is_error else "completed"
