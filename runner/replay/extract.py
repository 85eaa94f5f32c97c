"""From the rows of an ended tree to its recording.

Owns what is taken from which row. Must not know: how a recording is read or replayed. Invariant: it holds no secret: stored
configurations name secrets by reference, and every text passes the mask of the caller.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from db.rows.reads import Reads, Record
from runner.errors import RunnerError
from runner.replay.recording import (
    REPLIES,
    RecordedCall,
    RecordedDecision,
    RecordedDelivery,
    RecordedExecution,
    RecordedMessage,
    RecordedReply,
    Recording,
    digest,
)
from runner.strategies.loop.rebuild import LOST

MaskValue = Callable[[Any], Any]
"""Replaces secrets in a JSON value."""

COLUMNS = [
    name for name in RecordedExecution.model_fields if name not in ("input", "result", "retries", "messages", "seconds")
]


class NotRecordable(RunnerError):
    """A tree that has no recording."""


async def record_tree(reads: Reads, root: str, mask: MaskValue) -> Recording:
    """The recording of an ended tree; raises NotRecordable."""
    rows = await reads.tree_rows(root)
    if not rows or rows[0]["id"] != root:
        raise NotRecordable(f"`{root}` is not the top of a tree", "name its top-level execution")
    if open_ := [row["id"] for row in rows if row["finished_at"] is None]:
        raise NotRecordable(f"execution `{open_[0]}` has not ended", "wait until it ends, or `outrider cancel` it")
    (failed, took), decisions = await _told(reads, root), await _decisions(reads, root)
    starts = {row["tool_call_id"]: row["id"] for row in rows if row["tool_call_id"] is not None}
    parts = _Parts(mask, decisions, starts, failed, took)
    executions = [await _execution(reads, row, parts) for row in rows]
    hashes = sorted({row["config_hash"] for row in rows if row["config_hash"] is not None})
    bodies = {each: await reads.snapshot(each) for each in hashes}
    return Recording(
        format="outrider-recording",
        version=1,
        root=root,
        configurations={each: _portable(body) for each, body in bodies.items() if body is not None},
        executions=tuple(executions),
    )


def _portable(body: str) -> dict[str, Any]:
    """A stored configuration, with the name of its file; where that lies is nobody else's concern."""
    content: dict[str, Any] = json.loads(body)
    return {**content, "source": Path(content["source"]).name}


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the parts of one execution need besides its own rows."""

    mask: MaskValue
    decisions: Mapping[str, Sequence[RecordedDecision]]
    """Answers of people, by tool call."""
    starts: Mapping[str, str]
    """The executions that tool calls started."""
    failed: Mapping[str, Sequence[str]]
    """The errors of failed attempts, by execution."""
    took: Mapping[str, float]
    """Seconds, by execution."""


async def _told(reads: Reads, root: str) -> tuple[dict[str, list[str]], dict[str, float]]:
    """From the events of the tree: the errors of failed attempts, and the seconds that each execution took."""
    failed: dict[str, list[str]] = {}
    took: dict[str, float] = {}
    after = 0
    while events := await reads.events(root, after):
        for event in events:
            if event["type"] == "execution.retrying":
                failed.setdefault(event["execution_id"], []).append(from_json(event["payload"])["error"])
            elif event["type"] == "execution.status":
                seconds = from_json(event["payload"]).get("seconds")
                took.update({event["execution_id"]: float(seconds)} if seconds is not None else {})
        after = events[-1]["seq"]
    return failed, took


async def _decisions(reads: Reads, root: str) -> dict[str, list[RecordedDecision]]:
    """Answers of people by tool call, latest first."""
    found: dict[str, list[RecordedDecision]] = {}
    for row in await reads.questions.decided(root):
        decided = RecordedDecision(
            kind=row["kind"], decision=row["decision"], decided_by=row["decided_by"], reason=row["reason"]
        )
        found.setdefault(row["tool_call_id"], []).append(decided)
    return found


async def _execution(reads: Reads, row: Record, parts: _Parts) -> RecordedExecution:
    messages = await reads.messages(row["id"])
    asked = iter([call for call in await reads.model_calls(row["id"]) if call["pricing"] != LOST])
    calls: dict[str, list[RecordedCall]] = {}
    for call in sorted(await reads.tool_calls(row["id"]), key=lambda each: (each["position"], each["id"])):
        calls.setdefault(call["message_id"], []).append(_call(call, parts))
    told = [_message(each, asked, calls.pop(each["id"], ()), parts) for each in messages]
    deliveries = [_delivery(each, parts) for each in await reads.deliveries(row["id"])]
    plain = {name: row[name] for name in COLUMNS if name not in ("calls", "deliveries")}
    return RecordedExecution(
        **{**plain, "task": parts.mask(row["task"]), "error": parts.mask(row["error"])},
        input=parts.mask(from_json(row["input"])) if row["input"] is not None else None,
        result=parts.mask(from_json(row["result"])) if row["result"] is not None else None,
        seconds=parts.took.get(row["id"]),
        retries=tuple(parts.failed.get(row["id"], ())),
        messages=tuple(told),
        calls=tuple(call for each in calls.values() for call in each),
        deliveries=tuple(deliveries),
    )


def _message(row: Record, asked: Any, calls: Sequence[RecordedCall], parts: _Parts) -> RecordedMessage:
    content = parts.mask(from_json(row["content"]))
    call = next(asked, None) if row["kind"] in REPLIES else None
    return RecordedMessage(
        id=row["id"],
        role=row["role"],
        kind=row["kind"],
        content=content,
        data=parts.mask(from_json(row["data"])) if row["data"] is not None else None,
        digest=digest(content),
        created_at=row["created_at"],
        reply=_reply(call) if call is not None else None,
        calls=tuple(calls),
    )


def _reply(row: Record) -> RecordedReply:
    values = {name: row[name] for name in RecordedReply.model_fields}
    return RecordedReply(**{**values, "rehearsed": bool(row["rehearsed"]), "cost_usd": float(row["cost_usd"])})


def _call(row: Record, parts: _Parts) -> RecordedCall:
    result, whole = parts.mask(row["result"]), parts.mask(row["full_result"])
    values = {name: row[name] for name in ("id", "call_id", "tool", "server", "effect", "status", "error_type")}
    return RecordedCall(
        **values,
        arguments=parts.mask(row["arguments"]),
        is_error=bool(row["is_error"]),
        result=result,
        whole=whole,
        digest=digest([result, whole]),
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        execution_id=parts.starts.get(row["id"]),
        approvals=tuple(parts.decisions.get(row["id"], ())),
    )


def _delivery(row: Record, parts: _Parts) -> RecordedDelivery:
    values = {name: row[name] for name in RecordedDelivery.model_fields if name != "payload"}
    return RecordedDelivery(**values, payload=parts.mask(from_json(row["payload"])) if row["payload"] is not None else None)
