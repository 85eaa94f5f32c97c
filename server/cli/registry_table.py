"""`outrider ps --registry`: what agents have handed to each other, at work or ended within the last hour."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS = ("", "id", "sub-agent", "command", "item", "language", "path", "age", "time left")


async def shown_registry(database: Path, as_json: bool) -> None:
    """Put out the registry, for people or for programs."""
    from runner.core.delegation import exported
    from server.cli.messages import note, put, put_json
    from server.cli.store import reading
    from server.cli.table import aligned

    async with reading(database) as reads:
        registry = exported(await reads.delegations.tracked())
        short = await reads.shorts([each["execution_id"] for each in registry["delegations"]])
    if as_json:
        put_json(registry)
    elif short:
        put(aligned(COLUMNS, [_cells(each, short[each["execution_id"]]) for each in registry["delegations"]]))
        note(f"{registry['active_delegations']} at work, {registry['total_tracked']} tracked")
    else:
        note("no agent has handed anything to another within the last hour")


def _cells(delegation: Mapping[str, Any], short: str) -> tuple[Any, ...]:
    from datetime import UTC, datetime

    from db.clock import moment
    from server.cli.wording import duration
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
