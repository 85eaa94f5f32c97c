"""`outrider ps`: recent executions; with `--registry` the delegations between agents of the last hour."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database

if TYPE_CHECKING:
    from db.rows.reads import Reads


RECENT, MOST = 50, 10_000
"""The most executions that are listed: with ended ones, and of open ones."""
COLUMNS = ("", "id", "agent", "doing", "age", "executions", "tokens", "cost", "task")
SPARE = ("executions", "tokens", "cost", "age", "agent")
"""What a narrow terminal can do without, the first soonest."""

DELEGATION_COLUMNS = ("", "id", "sub-agent", "command", "item", "language", "path", "age", "time left")


def ps(
    every: Annotated[bool, typer.Option("--all", "-a", help=f"Include ended executions, the newest {RECENT}.")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Delegations between agents, running or of the last hour.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """List open executions, whichever process runs them."""
    import anyio

    if registry:
        anyio.run(shown_registry, chosen_database(db, config), as_json)
        return 0

    from server.cli.show.table import aligned
    from server.cli.terminal.output import note, put, put_json

    found = anyio.run(entries, chosen_database(db, config), every)
    if as_json:
        put_json(found)
    elif found:
        put(aligned(COLUMNS, [_cells(entry) for entry in found], spare=SPARE))
        for text in _remarks(found):
            note(text)
    else:
        nothing = "this database has no executions yet" if every else "nothing is running"
        note(nothing + ("; start with `outrider demo`" if every else "; `outrider ps --all` lists what ended"))
    return 0


def _remarks(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    needs = [need for entry in found for need in entry["needs"]]
    if any(entry["owner_gone"] and not entry["needs"] for entry in found):
        yield "`outrider resume ID` resumes an interrupted execution; `outrider serve` does so by itself"
    if needs:
        hints = "; ".join(dict.fromkeys(need["hint"] for need in needs))
        yield f"a tree that needs something is not resumed until a process has it: {hints}"


async def entries(database: Path, every: bool) -> list[dict[str, Any]]:
    """The listed executions as objects; the number of queries does not depend on how many there are."""
    from dataclasses import asdict

    from server.cli.store import lacks_by_tree, reading

    async with reading(database) as reads:
        roots = await reads.roots(RECENT if every else MOST, only_open=not every)
        ids = [row["id"] for row in roots]
        short, pricing = await reads.shorts(ids), await reads.overview.pricing(ids)
        gone = _gone(database, roots)
        doing = await _doing(reads, [row for row in roots if row["finished_at"] is None])
        lacks = await lacks_by_tree(reads, database)
    return [
        {
            "id": row["id"],
            "short_id": short[row["id"]],
            **_entry(row, gone, doing.get(row["id"]) or row["reason"] or row["outcome"] or row["status"]),
            "pricing": sorted(pricing.get(row["id"], ())),
            "needs": [{**asdict(lack), "words": str(lack)} for lack in lacks.get(row["id"], ())],
        }
        for row in roots
    ]


def _gone(database: Path, roots: Sequence[Mapping[str, Any]]) -> set[str]:
    """The owners of open executions that have ended."""
    from db.store.owners import is_alive

    owners = {row["owner"] for row in roots if row["finished_at"] is None and row["owner"] is not None}
    return {owner for owner in owners if not is_alive(database, owner)}


def _entry(row: Mapping[str, Any], gone: Collection[str], doing: str) -> dict[str, Any]:
    from datetime import UTC, datetime

    from db.clock import moment

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


async def _doing(reads: Reads, roots: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What each of these open trees does."""
    ids = [row["id"] for row in roots]
    asked: dict[str, list[Mapping[str, Any]]] = {}
    for question in await reads.questions.open() if roots else ():
        asked.setdefault(question["root_execution_id"], []).append(question)
    shorts = await reads.shorts([each[0]["execution_id"] for each in asked.values()]) if asked else {}
    events, stages = await reads.overview.last_events(ids), await reads.overview.stages(ids)
    return {
        row["id"]: _asking(asked[row["id"]], shorts)
        if row["id"] in asked
        else _at_work(row, events.get(row["id"]), stages.get(row["id"]))
        for row in roots
    }


def _asking(asked: Sequence[Mapping[str, Any]], shorts: Mapping[str, str]) -> str:
    from server.cli.show.wording import waits

    first, more = asked[0], f" and {len(asked) - 1} more" if len(asked) > 1 else ""
    alone = len({each["id"] for each in asked if each["execution_id"] == first["execution_id"]}) == 1
    which = shorts[first["execution_id"]] if alone else first["id"]
    return f"{first['agent']} {waits(first['tool'], which)}{more}"


def _at_work(row: Mapping[str, Any], event: Mapping[str, Any] | None, stage: str | None) -> str:
    from server.cli.show.wording import EXPIRED, happening

    if event is None:
        return str(row["status"])
    if event["type"] == "approval.requested":  # and it is not open: its time ended while no process ran the execution
        return f"{event['agent']}: {EXPIRED}"
    words = happening(event["type"], json.loads(event["payload"]))
    if event["execution_id"] != row["id"]:
        words = f"{event['agent']}: {words}"
    where = happening("execution.progress", json.loads(stage)) if stage is not None else words
    return words if where == words else f"{where} · {words}"


def _cells(entry: Mapping[str, Any]) -> tuple[str, ...]:
    from server.cli.show.wording import duration, price, tokens
    from server.shapes import shape

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


async def shown_registry(database: Path, as_json: bool) -> None:
    """Put out the registry, for people or for programs."""
    from runner.core.delegation import exported
    from server.cli.show.table import aligned
    from server.cli.store import reading
    from server.cli.terminal.output import note, put, put_json

    async with reading(database) as reads:
        registry = exported(await reads.delegations.tracked())
        short = await reads.shorts([each["execution_id"] for each in registry["delegations"]])
    if as_json:
        put_json(registry)
    elif short:
        put(
            aligned(
                DELEGATION_COLUMNS,
                [_delegation_cells(each, short[each["execution_id"]]) for each in registry["delegations"]],
            )
        )
        note(f"{registry['active_delegations']} at work, {registry['total_tracked']} tracked")
    else:
        note("no agent has delegated anything within the last hour")


def _delegation_cells(delegation: Mapping[str, Any], short: str) -> tuple[Any, ...]:
    from datetime import UTC, datetime

    from db.clock import moment
    from server.cli.show.wording import duration
    from server.shapes import shape

    now, begun, until = datetime.now(UTC), delegation["start_time"], delegation["deadline"]
    running = delegation["status"] == "running"
    return (
        shape(delegation["status"]),
        short,
        delegation["subagent"],
        delegation["command"],
        delegation["task_number"],
        delegation["language"],
        " → ".join(delegation["delegation_path"]),
        duration((now - moment(begun)).total_seconds()) if begun else None,
        duration((moment(until) - now).total_seconds()) if until and running else None,
    )
