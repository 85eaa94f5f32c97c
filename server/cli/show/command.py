"""`outrider show`: one execution, its facts, its answer, its tree, its transcript; or one tool call, as evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database

if TYPE_CHECKING:
    from db.rows.reads import Reads


def show(  # noqa: PLR0913 - the options of a command are its parameters
    identifier: Annotated[
        str, typer.Argument(metavar="ID", help="An execution, by its id, short or whole; or a tool call.")
    ],
    tree: Annotated[bool, typer.Option("--tree", help="Its tree only.")] = False,
    transcript: Annotated[bool, typer.Option("--transcript", help="What was said and called, in order.")] = False,
    every: Annotated[bool, typer.Option("--all", help="With --transcript: of its whole tree.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Its plan or its tasks, and what became of each.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Show an execution: facts, answer and tree."""
    import anyio

    views = [name for name, wanted in (("tree", tree), ("transcript", transcript), ("plan", plan)) if wanted]
    if len(views) > 1:
        raise CommandError(f"`--{views[0]}` and `--{views[1]}` are two views", "choose one of them")
    if every and not transcript:
        raise CommandError("`--all` shows the transcript of a whole tree", "add `--transcript`")
    if every:
        views = ["talk"]
    anyio.run(_show, chosen_database(db, config), identifier, views[0] if views else "all", as_json)
    return 0


async def _show(database: Path, identifier: str, part: str, as_json: bool) -> None:
    from db.errors import UnknownExecution
    from server.cli.show import execution_view
    from server.cli.store import reading
    from server.cli.terminal.output import put, put_json

    async with reading(database) as reads:
        call = await reads.evidence(identifier)
        if call is not None:
            put_json(execution_view.call_object(call)) if as_json else put(execution_view.call_text(call))
            return
        try:
            execution = await reads.resolve(identifier)
        except UnknownExecution as error:
            if not error.matches:
                error.hint = "`outrider ps --all` lists the executions; a tool call is named by its whole id"
            raise
        if part == "transcript":
            await _transcript(reads, execution, as_json)
            return
        if part == "talk":
            await _talk(reads, execution, as_json)
            return
        if part == "plan":
            await _plan(reads, execution, as_json)
            return
        view = await execution_view.load_view(reads, database, execution)
        if as_json:
            put_json(view.as_object() if part == "all" else view.tree_object())
        elif part == "all":
            view.show()
        else:
            put(view.origin_text() + view.tree_text())


async def _plan(reads: Reads, execution: str, as_json: bool) -> None:
    from runner.strategies.iterate.export import tasks_of
    from runner.strategies.plan.export import plan_of
    from server.cli.show.execution_view import plan_text, tasks_text
    from server.cli.terminal.output import put, put_json

    plan = await plan_of(reads, execution)
    tasks = await tasks_of(reads, execution) if plan is None else None
    if plan is not None:
        put_json(plan) if as_json else put(plan_text(plan))
    elif tasks is not None:
        put_json(tasks) if as_json else put(tasks_text(tasks))
    else:
        hint = "only agents with the strategy `plan` or `iterate` make one"
        raise CommandError(f"execution `{execution}` has no plan", hint, Exit.NOT_FOUND)


async def _transcript(reads: Reads, execution: str, as_json: bool) -> None:
    """What one execution said and called."""
    from server.cli.show import execution_view
    from server.cli.show.transcript_text import TranscriptText
    from server.cli.terminal.output import put_json

    messages, calls = await reads.messages(execution), await reads.tool_calls(execution)
    if as_json:
        put_json(
            {
                "execution_id": execution,
                "messages": [execution_view.message_object(message) for message in messages],
                "tool_calls": [execution_view.call_object(call) for call in calls],
            }
        )
        return
    rows = await reads.tree(execution)
    parent = await reads.execution(rows[0]["parent_execution_id"]) if rows[0]["parent_execution_id"] else None
    TranscriptText(rows, messages, calls, await reads.model_calls(execution), parent).show()


async def _talk(reads: Reads, execution: str, as_json: bool) -> None:
    """What a whole tree said and called."""
    from server.cli.show import execution_view
    from server.cli.show.transcript_text import TranscriptText
    from server.cli.terminal.output import put_json

    rows = await reads.tree(execution)
    messages, calls = await reads.talk(execution)
    if not as_json:
        parent = await reads.execution(rows[0]["parent_execution_id"]) if rows[0]["parent_execution_id"] else None
        TranscriptText(rows, messages, calls, await reads.model_calls_below(execution), parent).show()
        return
    agents = {row["id"]: row["agent"] for row in rows}
    put_json(
        {
            "execution_id": execution,
            "executions": [{name: row[name] for name in ("id", "parent_execution_id", "agent", "task")} for row in rows],
            "messages": [
                {"agent": agents[each["execution_id"]], **execution_view.message_object(each)} for each in messages
            ],
            "tool_calls": [{"agent": agents[each["execution_id"]], **execution_view.call_object(each)} for each in calls],
        }
    )
