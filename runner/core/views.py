"""Snapshots of executions: from memory for live ones of this process, else from rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from db.clock import moment
from db.database import Database
from db.ids import result_delivery
from db.store.owners import DOUBT_SECONDS, doubtful, is_alive, survives
from runner.core.allowance import Allowance
from runner.core.inbox import Item
from runner.core.tree import Node
from runner.core.verdict import Life
from runner.messages import Delivered
from runner.result import UNVERIFIED, Result
from runner.snapshot import Snapshot
from runner.text import SHOWN_TOGETHER, cut, shares

INTERRUPTED = "interrupted: the process that ran it is gone"
"""The activity of an open execution whose owner is dead. It is derived, never stored: a crash writes no rows."""

TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def is_gone(row: Mapping[str, Any], database: Path) -> bool:
    """Whether an execution is open but its process is dead."""
    return row["finished_at"] is None and not (row["owner"] and is_alive(database, row["owner"]))


async def gone_owners(database: Database, top: str | None = None) -> list[str]:
    """The dead owners of open executions: in the tree of `top`, or anywhere."""
    owners = [owner for owner in await database.reads.open_owners(top) if owner != database.owner]
    gone = {owner for owner in owners if not is_alive(database.path, owner)}
    if doubts := doubtful(database.path, gone):
        await anyio.sleep(DOUBT_SECONDS)
        gone -= {owner for owner in doubts if survives(database.path, owner)}
    return sorted(gone)


def elapsed_in(row: Mapping[str, Any]) -> float:
    """Seconds from the start of an execution to its end, or to now."""
    started = moment(row["started_at"] or row["created_at"])
    ended = moment(row["finished_at"]) if row["finished_at"] else datetime.now(UTC)
    return (ended - started).total_seconds()


def snapshot_of_row(row: Mapping[str, Any], *, gone: bool = False) -> Snapshot:
    """The snapshot of an execution from its row; `gone` if its process is dead."""
    deadline = row["deadline_at"]
    open_ = row["finished_at"] is None
    return Snapshot(
        id=row["id"],
        agent=row["agent"],
        task=row["task"] or "",
        status=row["status"],
        result=Result.of_json(row["result"]) if row["result"] else None,
        error=row["error"],
        activity=INTERRUPTED if gone else f"waiting for {row['waiting_for']}" if row["waiting_for"] else "",
        elapsed=elapsed_in(row),
        remaining=max(0.0, (moment(deadline) - datetime.now(UTC)).total_seconds()) if deadline and open_ else None,
        usage=_usage_in(row),
        waiting_for=row["waiting_for"],
    )


def _usage_in(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The own usage of an execution and the limits of its budget; spending by children is in their rows."""
    used = {
        "turns": row["turns"],
        "tokens": sum(row[name] for name in TOKENS),
        "cost_usd": round(row["cost_usd"], 6),
        "tool_calls": row["tool_call_count"],
    }
    limits = {unit: row[f"budget_{unit}"] for unit in ("usd", "tokens") if row[f"budget_{unit}"] is not None}
    return {**used, "budget": limits} if limits else used


async def subtree_usage(database: Database, executions: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """The subtree usage of each of these executions."""
    names = ("executions", "turns", "tool_calls", "tokens")
    totals = await database.reads.subtree_totals(executions)
    return {
        identifier: {**{name: row[name] for name in names}, "cost_usd": round(row["cost_usd"], 6)}
        for identifier, row in totals.items()
    }


def end_item(node: Node, life: Life, tool_calls: int) -> Item:
    """The end of an execution as an item for its parent's inbox."""
    result = life.result
    delivered = Delivered(
        execution_id=node.id,
        agent=node.name,
        status=life.status.value,
        outcome=result.outcome.value if result is not None else None,
        text=result.text if result is not None else "",
        tool_calls=tool_calls,
        unverified=result.metadata.get(UNVERIFIED, ()) if result is not None else (),
    )
    return Item(result_delivery(node.id), "result", result=delivered, answer=result)


def standing_of(node: Node, elapsed: float) -> dict[str, Any]:
    """Session, depth, path and duration of an execution, for its result."""
    return {
        "session_id": node.origin.session,
        "agent_type": node.path[-1],
        "delegation_depth": node.depth,
        "delegation_path": list(node.delegation_path),
        "duration_seconds": round(elapsed, 3),
    }


def usage_of(allowance: Allowance) -> dict[str, Any]:
    """The own usage of an execution, without its children, and its budget if it has one."""
    spent = allowance.own
    used = {
        "turns": spent.turns,
        "tokens": spent.tokens,
        "cost_usd": round(spent.cost_usd, 6),
        "dispatches": spent.dispatches,
        "tool_calls": spent.tool_calls,
    }
    budget = allowance.budget.shown if allowance.budget is not None else None
    return {**used, "budget": budget} if budget else used


def reports_of(children: Iterable[Snapshot]) -> str:
    """The reports of children, each with name and status: the output of a parent that did not conclude."""
    found = [(child, child.result.text) for child in children if child.result is not None and child.result.output]
    limit = shares([text for _, text in found], SHOWN_TOGETHER)
    return "\n\n".join(f"### {child.agent} ({child.status})\n\n{cut(text, child.id, limit)}" for child, text in found)
