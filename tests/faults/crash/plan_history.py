"""What must be true of an expedition at rest: each version was made once, each step ran once, a person was asked once, a
user was answered once.

Owns: the invariants of plans and of what users say, as `tests/faults/crash/history.py` has the others. Must not know: as
there.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from runner.chat import phrase
from tests.faults.crash.brigade import ROOT
from tests.faults.crash.expedition import CAUTIOUS, COURIER, MARSHAL, STATUSES, VERSIONS

if TYPE_CHECKING:
    from tests.faults.crash.history import History


def plans_are_whole(history: History) -> list[str]:
    """Every version is kept once and says how it ended, and every step of it has exactly one row, with the right end."""
    versions = history.sql("select version, status, steps from plans order by execution_id, version")
    newest = [row["status"] for row in versions[-1:]]
    open_ = [f"the newest version is {status}" for status in newest if status not in ("completed", "failed")]
    if not _carried_out(history):
        return open_
    made = [(row["version"], row["status"]) for row in versions]
    planned = Counter(step["id"] for row in versions for step in json.loads(row["steps"]))
    rows = Counter(row["step_id"] for row in history.executions.values() if row["role"] == "step")
    ends = {row["step_id"]: row["status"] for row in history.executions.values() if row["role"] == "step"}
    found = [f"the versions are {made}"] if made != list(VERSIONS) else []
    found += [
        f"step {step} is in {planned[step]} versions and has {rows[step]} rows"
        for step in planned | rows
        if (planned[step], rows[step]) != (1, 1)
    ]
    return found + ([f"the steps ended as {ends}"] if ends != STATUSES else [])


def people_are_asked_once(history: History) -> list[str]:
    """A step that needs it runs after a person allowed it; nobody is asked anew for what was allowed."""
    if not _carried_out(history):
        return []
    questions = history.sql("select kind, decision, used_at from approvals")
    asked = [(row["kind"], row["decision"], row["used_at"] is not None) for row in questions]
    found = [f"the questions are {asked}"] if asked != [("gate", "approved", True)] else []
    order = [entry.what for entry in history.entries if entry.what == "question" or entry.label == CAUTIOUS]
    return found + (["a step ran before anybody allowed it"] if order[:1] != ["question"] else [])


def users_are_answered_once(history: History) -> list[str]:
    """What a user said is kept once and has one answer, which is what its execution came to."""
    if history.agent != COURIER:
        return []
    said = history.sql("select role, content, execution_id from chat_messages order by created_at, role desc")
    [row] = history.labelled(ROOT)
    heard = phrase("stopped", "en") if row["status"] == "cancelled" else json.loads(row["result"] or "{}").get("output")
    wanted = [("user", ROOT, row["id"]), ("assistant", heard, row["id"])]
    kept = [(each["role"], each["content"], each["execution_id"]) for each in said]
    return [f"the conversation is {kept}"] if kept != wanted else []


def _carried_out(history: History) -> bool:
    """Whether it is an expedition that nobody stopped."""
    return history.agent in (MARSHAL, COURIER) and not any(
        row["cancel_requested_at"] for row in history.executions.values()
    )
