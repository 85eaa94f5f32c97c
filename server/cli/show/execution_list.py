"""Executions at the top of their trees as a list: what each does, in objects for programs and in cells for people.

Owns the words of a row. Must not know: which executions are asked for, or where the list is drawn. Invariant: the number of
queries does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from db.clock import moment
from db.rows.reads import Reads
from db.store.owners import is_alive
from server.cli.show.wording import waits
from server.cli.store import lacks_by_tree
from server.shapes import shape
from server.views.activity import activity_of_tree
from server.wording import duration, price, tokens

COLUMNS = ("", "id", "agent", "doing", "age", "executions", "tokens", "cost", "task")
SPARE = ("executions", "tokens", "cost", "age", "agent")
"""What a narrow terminal can do without, the first soonest."""


async def entries_of(reads: Reads, database: Path, roots: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """These executions as objects; the number of queries does not depend on how many there are."""
    ids = [row["id"] for row in roots]
    short, pricing = await reads.shorts(ids), await reads.overview.pricing(ids)
    gone = _gone(database, roots)
    open_ = [row for row in roots if row["finished_at"] is None]
    asked = await _asked(reads) if open_ else {}
    doing = await _doing(reads, open_, asked)
    lacks = await lacks_by_tree(reads, database)
    return [
        {
            "id": row["id"],
            "short_id": short[row["id"]],
            **_entry(row, gone, doing.get(row["id"]) or row["reason"] or row["outcome"] or row["status"]),
            "approvals": len(asked.get(row["id"], ())),
            "pricing": sorted(pricing.get(row["id"], ())),
            "needs": [{**asdict(lack), "words": str(lack)} for lack in lacks.get(row["id"], ())],
        }
        for row in roots
    ]


def _gone(database: Path, roots: Sequence[Mapping[str, Any]]) -> set[str]:
    """The owners of open executions that have ended."""
    owners = {row["owner"] for row in roots if row["finished_at"] is None and row["owner"] is not None}
    return {owner for owner in owners if not is_alive(database, owner)}


def _entry(row: Mapping[str, Any], gone: Collection[str], doing: str) -> dict[str, Any]:
    return {
        "agent": row["agent"],
        "status": row["status"],
        "outcome": row["outcome"],
        "reason": row["reason"],
        "task": row["task"],
        "owner": row["owner"],
        "owner_gone": row["finished_at"] is None and row["owner"] in gone,
        "cancel_requested": row["cancel_requested_at"] is not None,
        "doing": doing,
        "age_seconds": round((datetime.now(UTC) - moment(row["created_at"])).total_seconds(), 3),
        "executions": row["subtree_executions"],
        "tokens": row["subtree_tokens"],
        "cost_usd": row["subtree_cost_usd"],
    }


Asked = Mapping[str, Sequence[Mapping[str, Any]]]


async def _asked(reads: Reads) -> Asked:
    """The open questions to a person, by top-level execution."""
    asked: dict[str, list[Mapping[str, Any]]] = {}
    for question in await reads.questions.open():
        asked.setdefault(question["root_execution_id"], []).append(question)
    return asked


async def _doing(reads: Reads, roots: Sequence[Mapping[str, Any]], asked: Asked) -> dict[str, str]:
    """What each of these open trees does."""
    ids = [row["id"] for row in roots]
    shorts = await reads.shorts([each[0]["execution_id"] for each in asked.values()]) if asked else {}
    events, stages = await reads.overview.last_events(ids), await reads.overview.stages(ids)
    return {
        row["id"]: _asking(asked[row["id"]], shorts)
        if row["id"] in asked
        else activity_of_tree(row, events.get(row["id"]), stages.get(row["id"]))
        for row in roots
    }


def _asking(asked: Sequence[Mapping[str, Any]], shorts: Mapping[str, str]) -> str:
    first, more = asked[0], f" and {len(asked) - 1} more" if len(asked) > 1 else ""
    alone = len({each["id"] for each in asked if each["execution_id"] == first["execution_id"]}) == 1
    which = shorts[first["execution_id"]] if alone else first["id"]
    return f"{first['agent']} {waits(first['tool'], which)}{more}"


def cells_of(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """A line of the list, by `COLUMNS`."""
    doing = entry["doing"]
    if entry["needs"]:
        doing = f"interrupted; needs {', '.join(need['words'] for need in entry['needs'])}"
    elif entry["owner_gone"]:
        doing = f"interrupted ({doing})"
    elif entry["cancel_requested"] and entry["status"] in ("pending", "running"):
        doing = f"cancelling ({doing})"
    return (
        shape(entry["status"], entry["outcome"]),
        entry["short_id"],
        entry["agent"],
        doing,
        duration(entry["age_seconds"]),
        str(entry["executions"]),
        tokens(entry["tokens"]),
        price(entry["cost_usd"], entry["pricing"]),
        entry["task"] or "",
    )
