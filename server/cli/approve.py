"""`outrider approve`: what waits for a person, and the person's word; from whichever process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.exits import CommandError, Exit
from server.cli.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, person

if TYPE_CHECKING:
    from db.reads import Reads
    from runner.approvals import Question


def approve(  # noqa: PLR0913 - the options of a command are its parameters
    identifier: Annotated[
        str,
        typer.Argument(metavar="ID", help="An approval, or an execution with one call that waits; without: list them."),
    ] = "",
    deny: Annotated[bool, typer.Option("--deny", help="Do not allow the call.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept, and told to the agent.")] = "",
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Allow a call that waits for approval, or refuse it; works from any process."""
    import anyio

    if not identifier:
        if deny or reason:
            raise CommandError("which call is meant?", "`outrider approve` lists the calls that wait, with their ids")
        anyio.run(_list, chosen_database(db, config), as_json)
    else:
        anyio.run(_decide, chosen_database(db, config), identifier, (not deny, reason), as_json)
    return 0


async def _list(database: Path, as_json: bool) -> None:
    from runner.approvals import Question
    from server.cli.messages import note, put, put_json
    from server.cli.store import reading

    async with reading(database) as reads:
        questions = [Question.of_row(row) for row in await reads.questions.open()]
    if as_json:
        put_json([as_object(question) for question in questions])
    elif questions:
        put("\n\n".join(as_text(question) for question in questions))
        note("`outrider approve ID` allows a call, `outrider approve ID --deny` refuses it")
    else:
        note("nothing waits for approval")


async def _decide(database: Path, identifier: str, said: tuple[bool, str], as_json: bool) -> None:
    from runner.approvals import Approvals, Word
    from runner.lookup import is_gone
    from server.cli.messages import note, put, put_json
    from server.cli.store import writing

    approved, reason = said
    async with writing(database) as (opened, recorder):
        question = await _meant(opened.reads, identifier)
        row = await opened.reads.execution(question.execution_id)
        if not await Approvals(recorder, opened.reads.questions).decide(question, Word(approved, person(), reason)):
            raise await _too_late(opened.reads, question.id)
    if row is not None and is_gone(row, database):
        root = question.root_execution_id
        note(f"its process is gone; `outrider resume {root}` goes on with it, or the next `outrider serve`")
    decision = "approved" if approved else "denied"
    if as_json:
        put_json({**as_object(question), "decision": decision})
    else:
        put(f"{decision}\n{as_text(question)}")


async def _meant(reads: Reads, identifier: str) -> Question:
    """The one open question an id stands for; raises CommandError or UnknownExecution."""
    from db.errors import UnknownExecution
    from runner.approvals import Question

    found = await reads.questions.open(beginning=identifier)
    if not found:
        if earlier := await reads.questions.those([identifier]):
            raise await _too_late(reads, earlier[0]["id"])
        try:
            execution = await reads.resolve(identifier)
        except UnknownExecution as error:
            error.hint = "`outrider approve` lists the calls that wait"
            raise
        found = await reads.questions.open(execution)
    questions = [Question.of_row(row) for row in found]
    if not questions:
        raise CommandError(f"nothing waits for approval in execution `{identifier}`", _LIST, Exit.NOT_FOUND)
    if len(questions) > 1:
        raise CommandError(f"{len(questions)} calls wait for approval", f"name one of them: {_ids(questions)}")
    return questions[0]


async def _too_late(reads: Reads, identifier: str) -> CommandError:
    [row] = await reads.questions.those([identifier])
    by = f" by {row['decided_by']}" if row["decided_by"] else ""
    decided = f"was {row['decision']}{by} at {row['decided_at']}" if row["decision"] else "is not waited for any more"
    return CommandError(f"approval `{identifier}` {decided}", _LIST, Exit.REFUSED)


_LIST = "`outrider approve` lists the calls that wait"


def _ids(questions: Sequence[Question]) -> str:
    return ", ".join(f"`{question.id}`" for question in questions)


def as_object(question: Question) -> dict[str, Any]:
    """A question for programs."""
    from dataclasses import asdict

    shown = asdict(question)
    return {"approval_id": shown.pop("id"), **shown}


def as_text(question: Question) -> str:
    """A question for people, to the last character of its arguments."""
    from datetime import UTC, datetime

    from db.clock import moment
    from server.cli.messages import one_line
    from server.cli.wording import duration

    left = (moment(question.expires_at) - datetime.now(UTC)).total_seconds()
    facts = [
        ("approval", question.id),
        ("agent", f"{one_line(question.agent)}, execution {question.execution_id}"),
        ("tool", one_line(question.tool)),
        ("arguments", question.exact),
        ("expires", f"{question.expires_at}, in {duration(left)}"),
    ]
    if question.kind == "repeat":
        facts.insert(3, ("note", "a restart cut this call off; whether it took effect is unknown, and it would run again"))
    return "\n".join(f"{name:<10} {value}" for name, value in facts)
