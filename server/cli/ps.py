"""`outrider ps`: recent executions; with `--registry` the delegations between agents of the last hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from server.cli.terminal.exits import CommandError
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database

RECENT, MOST = 50, 10_000
"""The most executions that are listed: with ended ones, and of open ones."""

DELEGATION_COLUMNS = ("", "id", "sub-agent", "command", "item", "language", "path", "age", "time left")


def ps(  # noqa: PLR0913 - the options of a command are its parameters
    every: Annotated[bool, typer.Option("--all", "-a", help=f"Include ended executions, the newest {RECENT}.")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="Delegations between agents, running or of the last hour.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--watch", help="Keep the list on the screen; with --json, one document a line for each change.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """List open executions, whichever process runs them.

    `--watch` keeps the list live until Ctrl-C, which stops nothing: what needs attention, what runs, what has ended.
    """
    import anyio

    if live:
        return _watched(chosen_database(db, config), registry=registry, as_json=as_json)
    if registry:
        anyio.run(shown_registry, chosen_database(db, config), as_json)
        return 0

    from server.cli.show.execution_list import COLUMNS, SPARE, cells_of
    from server.cli.show.table import aligned
    from server.cli.terminal.output import note, put, put_json

    found = anyio.run(entries, chosen_database(db, config), every)
    if as_json:
        put_json(found)
    elif found:
        put(aligned(COLUMNS, [cells_of(entry) for entry in found], spare=SPARE))
        for text in _remarks(found):
            note(text)
    else:
        nothing = "this database has no executions yet" if every else "nothing is running"
        note(nothing + ("; start with `outrider demo`" if every else "; `outrider ps --all` lists what ended"))
    return 0


def _watched(database: Path, *, registry: bool, as_json: bool) -> int:
    import anyio

    from server.cli.live.live_list import watch_list

    if registry:
        raise CommandError("`--registry` and `--watch` are two lists", "choose one of them")
    return anyio.run(watch_list, database, (MOST, RECENT), as_json)


def _remarks(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    needs = [need for entry in found for need in entry["needs"]]
    if any(entry["owner_gone"] and not entry["needs"] for entry in found):
        yield "`outrider resume ID` resumes an interrupted execution; `outrider serve` does so by itself"
    if needs:
        hints = "; ".join(dict.fromkeys(need["hint"] for need in needs))
        yield f"a tree that needs something is not resumed until a process has it: {hints}"


async def entries(database: Path, every: bool) -> list[dict[str, Any]]:
    """The listed executions as objects."""
    from server.cli.show.execution_list import entries_of
    from server.cli.store import reading

    async with reading(database) as reads:
        return await entries_of(reads, database, await reads.roots(RECENT if every else MOST, only_open=not every))


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
    from server.shapes import shape
    from server.wording import duration

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
