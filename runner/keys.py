"""Keys of dispatches: the same key again means the execution it was first used for, so asking twice starts nothing twice.

Owns what counts as the same dispatch. Where keys are remembered is not its concern: a parent has its children in memory, a
caller from outside has rows.
"""

from __future__ import annotations

from registry import fold
from runner.errors import Refusal
from runner.handle import Child
from runner.transcript import clean


def earlier(child: Child, key: str, name: str, task: str, *, same_rest: bool = True) -> Child:
    """The execution `key` was used for; raises Refusal when it was for another agent, task, input or user."""
    if not same_rest or (fold(child.agent), clean(child.task)) != (fold(name), clean(task)):
        raise Refusal(
            "key_reused",
            f"the key `{key}` was used for another dispatch: execution {child.id} of `{child.agent}`",
            "take another key for another task",
            {"execution_id": child.id},
        )
    return child
