"""`outrider cancel`: ask a tree to stop or to conclude, and report the status of each execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.terminal.exits import CommandError
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, person

if TYPE_CHECKING:
    from db.database import Database

PATIENCE = 5.0
"""Seconds the command waits for the processes that run the tree; what takes longer continues without it."""

FROM_THE_SHELL = "cancelled from the shell"


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """What to do with a tree."""

    wrap_up: bool
    reason: str

    @property
    def asked(self) -> str:
        """What an open execution of it is asked to do, in words."""
        return "asked to conclude" if self.wrap_up else "asked to stop"


@dataclass(frozen=True, slots=True)
class CancelReport:
    """What a cancel request came to."""

    answer: str
    """`requested`, `done` or `already_finished`."""
    was_over: frozenset[str]
    rows: list[Mapping[str, Any]]
    short: Mapping[str, str]
    """The short ids of the rows."""
    alone: bool = False
    """Whether no process runs it at the moment: the request waits for one that resumes it."""

    @property
    def left(self) -> int:
        """How many executions have not ended."""
        return sum(row["finished_at"] is None for row in self.rows)


def cancel(  # noqa: PLR0913 - the options of a command are its parameters
    identifier: Annotated[str, typer.Argument(metavar="ID", help="An execution: its id, short or whole.")],
    wrap_up: Annotated[
        bool, typer.Option("--wrap-up", help="Let it answer with what it has, instead of stopping it.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept with the execution.")] = FROM_THE_SHELL,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Cancel an execution and everything below it; works from any process."""
    import anyio

    from server.cli.terminal.output import put_json

    if wrap_up and reason != FROM_THE_SHELL:
        hint = 'say it to the agent: `outrider message ID "…"`'
        raise CommandError("`--reason` is kept with a cancelled execution; `--wrap-up` cancels none", hint)
    wish = CancelRequest(wrap_up, reason)
    outcome = anyio.run(_carry_out, chosen_database(db, config), identifier, wish)
    if as_json:
        put_json(_object(outcome, wish))
    else:
        _tell(outcome, wish)
    return 0


def _object(outcome: CancelReport, wish: CancelRequest) -> dict[str, Any]:
    top = outcome.rows[0]
    names = ("id", "agent", "status", "outcome", "reason")
    return {
        "execution_id": top["id"],
        "status": top["status"],
        "outcome": top["outcome"],
        "mode": "wrap_up" if wish.wrap_up else "abort",
        "cancel": outcome.answer,
        "executions": [{name: row[name] for name in names} for row in outcome.rows],
    }


def _tell(outcome: CancelReport, wish: CancelRequest) -> None:
    from server.cli.terminal.output import note, put

    top = outcome.short[outcome.rows[0]["id"]]
    show = f"`outrider show {top}`"
    for row in outcome.rows:
        put(_line(row, outcome, wish))
    if outcome.answer == "already_finished":
        note(f"it had ended before; {f'{show} has its answer' if wish.wrap_up else 'nothing was cancelled'}")
    elif outcome.alone:
        note(f"its process is gone; it concludes once `outrider resume {top}` or a service resumes it")
    elif outcome.left:
        note(f"{outcome.left} still {'concluding' if wish.wrap_up else 'stopping'}; {show} tells when they have")
    elif wish.wrap_up:
        cancelled = outcome.rows[0]["status"] == "cancelled"
        note(
            "it had nothing to conclude with, so it was cancelled" if cancelled else f"it concluded; {show} has its answer"
        )


async def _carry_out(database: Path, identifier: str, wish: CancelRequest) -> CancelReport:
    from runner.core.cancel import cancel_from_outside
    from runner.core.steering import steering_from_outside
    from runner.core.views import is_gone
    from server.cli.store import writing

    async with writing(database) as (opened, recorder):
        execution = await opened.reads.resolve(identifier)
        before = frozenset(row["id"] for row in await opened.reads.tree(execution) if row["finished_at"] is not None)
        if wish.wrap_up:
            answer = await steering_from_outside(opened, recorder).ask_to_wrap_up(execution, person())
        else:
            answer = await cancel_from_outside(opened, recorder, execution, person(), wish.reason)
        top = await opened.reads.execution(execution)
        alone = wish.wrap_up and top is not None and is_gone(top, opened.path)
        rows = await opened.reads.tree(execution) if alone else await _settled(opened, execution)
        over = answer == "requested" and all(row["finished_at"] is not None for row in rows)
        short = await opened.reads.shorts([row["id"] for row in rows])
        return CancelReport("done" if over else answer, before, rows, short, alone)


async def _settled(opened: Database, execution: str) -> list[Mapping[str, Any]]:
    """The tree once nothing in it is open any more, or as it is when patience ends."""
    import anyio

    from db.store.writer import changes

    with anyio.move_on_after(PATIENCE):
        async for _ in changes(opened.writer):
            if all(row["finished_at"] is not None for row in await opened.reads.tree(execution)):
                break
    return await opened.reads.tree(execution)


def _line(row: Mapping[str, Any], outcome: CancelReport, wish: CancelRequest) -> str:
    from server.cli.terminal.output import one_line
    from server.shapes import shape

    words = row["status"].replace("_", " ")
    if row["outcome"] == "partial" and row["status"] == "completed":
        words += f", partial ({row['reason']})"
    if row["id"] in outcome.was_over:
        words += " before"
    elif row["finished_at"] is None:
        words += f", {wish.asked}"
    indent = "   " * row["level"]
    return f"{indent}{shape(row['status'], row['outcome'])} {one_line(row['agent'])}  {outcome.short[row['id']]}  {words}"
