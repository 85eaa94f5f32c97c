"""Inert text: what comes from outside stands in labelled blocks of a prompt, and cannot open or close one."""

from __future__ import annotations

import re

from runner.transcript import clean

_BLOCKS = (
    *("agents", "agent", "available_agents", "instructions", "server", "unavailable", "input", "earlier", "stage"),
    *(
        "output_schema",
        "step",
        "results",
        "plan",
        "errors",
        "error",
        "context_from_previous_steps",
    ),
    *("presentation", "attempt", "current_time", "user_context", "user_memory", "fact", "conversation", "said", "language"),
    *("report", "message", "summary", "files", "file"),
)
"""The names of all blocks that prompts are made of."""
_TAG = re.compile(rf"<(/?)({'|'.join(_BLOCKS)})\b", re.IGNORECASE)


def inert(text: str) -> str:
    """Text in which nothing opens or closes a block."""
    return _TAG.sub(lambda match: f"&lt;{match[1]}{match[2]}", clean(text))
