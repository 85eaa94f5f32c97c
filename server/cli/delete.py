"""`outrider delete`: delete an ended tree and its rows, after showing them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database

if TYPE_CHECKING:
    from db.rows.reads import Reads

MOST_AGENTS = 8
"""Agents that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """A tree that is to be deleted."""

    rows: Sequence[Mapping[str, Any]]
    """Its executions, the top first."""
    belongings: Mapping[str, int]
    """How many rows of each table are its own."""
    continued_by: Sequence[Mapping[str, Any]]
    """Executions of other trees that continue it: they stay."""

    @property
    def top(self) -> Mapping[str, Any]:
        """Its top-level execution."""
        return self.rows[0]


def delete(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="A top-level execution: its id, short or whole.")],
    yes: Annotated[bool, typer.Option("--yes", help="Delete it without asking; needed without a terminal.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Delete an ended tree with its events, messages and calls.

    On a terminal the tree is shown first, and anything but yes keeps it. Memories of users, work items and other trees
    that continue it are kept.
    """
    import anyio

    return anyio.run(_carry_out, chosen_database(db, config), identifier, yes, as_json)


async def _carry_out(database: Path, identifier: str, yes: bool, as_json: bool) -> Exit:
    from runner.service.dispatcher import delete_tree
    from server.cli.store import reading, writing
    from server.cli.terminal.output import note, put, put_json

    async with reading(database) as reads:
        doomed = await _look(reads, identifier)
    if not (yes or await _agreed(doomed)):
        note("nothing was deleted")
        return Exit.REFUSED
    async with writing(database) as (opened, recorder):
        await delete_tree(opened, recorder, doomed.top["id"])
    later = [row["id"] for row in doomed.continued_by]
    if as_json:
        told = {"execution_id": doomed.top["id"], "agent": doomed.top["agent"], "deleted": dict(doomed.belongings)}
        put_json({**told, "continued_by": later})
    else:
        put(f"deleted: {_executions(doomed)}, {_others(doomed)}")
    for each in later:
        note(
            f"`{each}` continued it and is kept, without the transcript it began with; `outrider delete {each}` deletes it"
        )
    return Exit.DONE


async def _look(reads: Reads, identifier: str) -> Doomed:
    """The tree an id stands for; raises UnknownExecution, StillOpen, and CommandError for a part of one."""
    from db.errors import StillOpen

    execution = await reads.resolve(identifier)
    rows = await reads.tree(execution)
    root = rows[0]["root_execution_id"]
    if root != execution:
        hint = f"`outrider delete {root}` deletes the tree it belongs to"
        message = f"`{execution}` ({rows[0]['agent']}) is part of a tree, and only whole trees are deleted"
        raise CommandError(message, hint)
    learned = await reads.belongings.extractions(root)
    later = await reads.belongings.continued_by([root, *learned])
    for each in learned:
        rows = [*rows, *await reads.tree(each)]
    unfinished = next((row["id"] for row in later if row["open"]), None)
    still = next((row["root_execution_id"] for row in rows if row["finished_at"] is None), None)
    if still is not None:
        raise StillOpen(still)
    if unfinished is not None:
        raise StillOpen(unfinished, continues=root)
    return Doomed(rows, await reads.belongings.of([root, *learned]), later)


async def _agreed(doomed: Doomed) -> bool:
    """Whether a person who has seen the tree wants it deleted; raises CommandError where no person can be asked."""
    from server.cli.approve import is_yes
    from server.cli.terminal.keyboard import Keyboard

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        what = f"{_executions(doomed)}, {_others(doomed)}"
        raise CommandError(f"this would delete {what}, and there is no terminal to ask at", "add `--yes` to delete it")
    return is_yes(await Keyboard().line(f"{_as_text(doomed)}\nDelete it? [y/N] ", fresh=True))


def _as_text(doomed: Doomed) -> str:
    from server.cli.terminal.output import one_line

    top = doomed.top
    agents = Counter(one_line(row["agent"]) for row in doomed.rows).most_common()
    named = [name if times == 1 else f"{name} ×{times}" for name, times in agents[:MOST_AGENTS]]
    more = [f"{len(agents) - MOST_AGENTS} others"] if len(agents) > MOST_AGENTS else []
    facts = [
        ("execution", f"{top['id']} ({top['status'].replace('_', ' ')})"),
        ("task", one_line(top["task"] or "", 70)),
        ("began", f"{top['created_at']}, ended {top['finished_at']}"),
        ("agents", ", ".join([*named, *more])),
        ("deletes", f"{_executions(doomed)}, {_others(doomed)}"),
    ]
    if doomed.continued_by:
        facts.append(("stays", f"what continued it: {', '.join(row['id'] for row in doomed.continued_by)}"))
    return "\n".join(f"{name:<10} {value}" for name, value in facts if value)


def _executions(doomed: Doomed) -> str:
    from server.wording import count

    return count(doomed.belongings["executions"], "execution")


def _others(doomed: Doomed) -> str:
    from server.wording import count

    words = {"events": "event", "messages": "message", "tool_calls": "tool call", "chat_messages": "chat message"}
    told = [count(doomed.belongings[table], word) for table, word in words.items() if doomed.belongings[table]]
    return ", ".join(told) or "no events"
