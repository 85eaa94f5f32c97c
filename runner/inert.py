"""Inert text: what comes from outside stands in labelled blocks of a prompt, and cannot open or close one.

Owns the names of the blocks, and what is taken for a tag of one: whoever reads may overlook what cannot be seen, so neither
invisible characters inside a tag nor the wide forms of its brackets hide one, nor does space inside one that closes.
"""

from __future__ import annotations

import re
from html import escape

from runner.transcript import clean

BLOCKS = (
    *("agents", "agent", "available_agents", "instructions", "server", "unavailable", "input", "earlier", "stage"),
    *("output_schema", "step", "results", "plan", "errors", "error", "reason", "context_from_previous_steps"),
    *("presentation", "attempt", "current_time", "user_context", "user_memory", "fact", "conversation", "said", "language"),
    *("report", "message", "summary", "files", "file", "objective", "skills", "task", "execution_state"),
    *("workspaces", "workspace", "return_format", "background"),
)
"""The names of all blocks that prompts are made of."""

_UNSEEN = (
    r"\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffd\U000e0000-\U000e0fff"
)
"""Controls, and what leaves no trace on paper; also the mark that stands for what could not be kept."""
_NAMES = "|".join(rf"[{_UNSEEN}]*+".join(name) for name in sorted(BLOCKS, key=len, reverse=True))
_TAG = re.compile(
    rf"[<＜﹤](?=(?:[{_UNSEEN}]*+|[\s{_UNSEEN}]*+[/／][\s{_UNSEEN}]*+)(?:{_NAMES})(?![a-z0-9_]))", re.IGNORECASE
)


def inert(text: str) -> str:
    """Text in which nothing opens or closes a block."""
    return _TAG.sub("&lt;", clean(text))


def label(text: str) -> str:
    """Text as it stands in a tag, or as the name of somebody: on one line, and without quotes or brackets of its own."""
    return inert(escape(" ".join(text.split())))


def beside(task: str, *blocks: str) -> str:
    """A task and the blocks that stand beside it. Alone it stays as it is: then there is nothing it could open or close."""
    return "\n\n".join(part for part in (inert(task), *blocks) if part) if blocks else clean(task)
