"""What an open execution does now, in words.

Owns the choice between what its row, its calls, its events and its questions say. Must not know: how a person is told to
answer a question, which each face words itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from server.wording import EXPIRED, happening

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Present:
    """What else is known about the executions of a tree."""

    asked: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The tools of the open questions about each."""
    calling: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The tools of each that are at work."""
    stages: Mapping[str, str] = field(default_factory=dict)
    """The payload of the newest stage event of each chain."""


def activity_of(row: Row, present: Present, *, gone: bool) -> str:
    """What one execution of a tree does; empty once it has ended."""
    if row["finished_at"] is not None:
        return ""
    if gone:
        from runner.core.views import INTERRUPTED  # late: `outrider ps` reads the words of trees only

        return INTERRUPTED
    if tools := present.asked.get(row["id"]):
        return waiting_for_person(tools)
    waits = row["waiting_for"]
    if waits == "approval":
        return EXPIRED
    if (stage := present.stages.get(row["id"])) is not None and waits in (None, "children"):
        return happening("execution.progress", json.loads(stage))
    if waits is not None:
        return f"waiting for {waits}"
    if tools := present.calling.get(row["id"]):
        return f"calling {', '.join(dict.fromkeys(tools))}"
    if row["status"] == "pending":
        return "waiting to start"
    return "asking the model" if row["model"] is not None else "working"


def waiting_for_person(tools: Sequence[str]) -> str:
    """That a person must decide about calls of these tools."""
    more = f" and {len(tools) - 1} more" if len(tools) > 1 else ""
    return f"waiting for approval of {tools[0]}{more}"


def activity_of_tree(row: Row, event: Row | None, stage: str | None) -> str:
    """What an open tree does, from its newest event with its agent, and the newest stage of its chain."""
    if event is None:
        return str(row["status"])
    if event["type"] == "approval.requested":  # and it is not open: its time ended while no process ran the execution
        return f"{event['agent']}: {EXPIRED}"
    words = happening(event["type"], json.loads(event["payload"]))
    if event["execution_id"] != row["id"]:
        words = f"{event['agent']}: {words}"
    where = happening("execution.progress", json.loads(stage)) if stage is not None else words
    return words if where == words else f"{where} · {words}"
