"""`outrider approve`: list the calls that wait for approval, show one, and record the person's decision."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.terminal.exits import CommandError, Exit
from server.cli.terminal.options import ConfigOption, DatabaseOption, JsonOption, chosen_database, person

if TYPE_CHECKING:
    from db.rows.reads import Reads
    from runner.snapshot import Question


@dataclass(frozen=True, slots=True)
class ApprovalVerdict:
    """What the command line says about a call."""

    deny: bool
    digest: str
    """Of the call as a person saw it; empty where the person is to see it now."""
    reason: str


def approve(  # noqa: PLR0913 - the options of a command are its parameters
    identifier: Annotated[
        str,
        typer.Argument(metavar="ID", help="An approval, or an execution with one call that waits; without: list them."),
    ] = "",
    yes: Annotated[
        str, typer.Option("--yes", metavar="DIGEST", help="Allow the call without asking, by the digest a terminal showed.")
    ] = "",
    deny: Annotated[bool, typer.Option("--deny", help="Do not allow the call.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept, and told to the agent.")] = "",
    as_json: JsonOption = False,
    config: ConfigOption = None,
    db: DatabaseOption = None,
) -> int:
    """Show a call that waits for approval, and ask whether it may run; works from any process.

    On a terminal its exact arguments are shown, and anything but yes leaves it open. Without one, `--yes` needs the digest
    that a terminal shows below the arguments; `--deny` needs nothing.
    """
    import anyio

    if not identifier:
        if deny or reason or yes:
            raise CommandError("no approval or execution was given", _LIST)
        anyio.run(_list, chosen_database(db, config), as_json)
        return Exit.DONE
    if deny and yes:
        raise CommandError("`--yes` allows a call and `--deny` refuses it", "give one of them")
    return anyio.run(_decide, chosen_database(db, config), identifier, ApprovalVerdict(deny, yes, reason), as_json)


async def _list(database: Path, as_json: bool) -> None:
    from runner.snapshot import Question
    from server.cli.store import reading
    from server.cli.terminal.output import note, put, put_json

    async with reading(database) as reads:
        questions = [Question.of_row(row) for row in await reads.questions.open()]
    if as_json:
        put_json([as_object(question) for question in questions])
    elif questions:
        put("\n\n".join(as_text(question, digest=sys.stdout.isatty()) for question in questions))
        note("`outrider approve ID` asks whether a call may run, `outrider approve ID --deny` refuses it")
    else:
        note("nothing waits for approval")


async def _decide(database: Path, identifier: str, said: ApprovalVerdict, as_json: bool) -> Exit:
    from runner.approvals.approvals import ApprovalAnswer, Approvals
    from runner.core.views import is_gone
    from server.cli.store import reading, writing
    from server.cli.terminal.output import note, put, put_json

    async with reading(database) as reads:
        question = await _meant(reads, identifier)
        row = await reads.execution(question.execution_id)
    if not (said.deny or await _allowed(question, said.digest)):
        note(f"it stays open; `outrider approve {question.id} --deny` refuses it")
        return Exit.REFUSED
    async with writing(database) as (opened, recorder):
        word = ApprovalAnswer(not said.deny, person(), said.reason)
        if not await Approvals(recorder, opened.reads.questions).decide(question, word):
            raise await _too_late(opened.reads, question.id)
    if row is not None and is_gone(row, database):
        root = question.root_execution_id
        note(f"its process is gone; `outrider resume {root}` resumes it, and so does the next `outrider serve`")
    decision = "denied" if said.deny else "approved"
    if as_json:
        put_json({**as_object(question), "decision": decision})
    else:
        put(decision if _on_terminal() else f"{decision}\n{as_text(question)}")
    return Exit.DONE


async def _allowed(question: Question, digest: str) -> bool:
    """Whether a person who has seen the call allows it: by its digest, or asked now. Raises CommandError."""
    from hmac import compare_digest

    from server.cli.terminal.keyboard import Keyboard
    from server.cli.terminal.output import put

    look = f"look at it on a terminal: `outrider approve {question.id}`"
    if digest:
        if not compare_digest(digest.encode(), question.digest.encode()):
            raise CommandError(f"`{digest}` is not the digest of this call: another call was shown", look, Exit.REFUSED)
        return True
    if not _on_terminal():
        hint = f"{look}; without one, `--yes` takes the digest shown there, and `--deny` refuses the call"
        raise CommandError("a person has to see the arguments of a call before it is allowed", hint)
    put(as_text(question, digest=True))
    return is_yes(await Keyboard().line("Allow? [y/N] ", fresh=True))


def is_yes(line: str | None) -> bool:
    """Whether a person said yes, in so many words."""
    return line is not None and line.strip().casefold() in ("y", "yes")


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


async def _meant(reads: Reads, identifier: str) -> Question:
    """The one open question an id stands for; raises CommandError or UnknownExecution."""
    from db.errors import UnknownExecution
    from runner.approvals.approvals import outcome_of
    from runner.snapshot import Question

    named = await reads.questions.named(identifier)
    try:
        execution = await reads.resolve(identifier)
        in_it, over = await reads.questions.open(execution), await reads.questions.decided(execution)
    except UnknownExecution as error:
        execution, in_it, over = "", [], []
        if not named:
            error.hint = _LIST
            raise
    ids = {row["id"] for row in (*named, *in_it)}
    found = [row for row in await reads.questions.open() if row["id"] in ids]
    if not found:
        if late := named or over:
            raise CommandError(outcome_of(late[0]), _LIST, Exit.REFUSED)
        raise CommandError(f"nothing waits for approval in execution `{identifier}`", _LIST, Exit.NOT_FOUND)
    own = [row for row in found if row["execution_id"] == execution]
    questions = [Question.of_row(row) for row in (own if len(own) == 1 else found)]  # as trees and `ps` name it
    if len(questions) > 1:
        raise CommandError(f"{len(questions)} calls wait for approval", f"name one of them: {_ids(questions)}")
    return questions[0]


async def _too_late(reads: Reads, identifier: str) -> CommandError:
    from runner.approvals.approvals import outcome_of

    [row] = await reads.questions.those([identifier])
    return CommandError(outcome_of(row), _LIST, Exit.REFUSED)


_LIST = "`outrider approve` lists the calls that wait"


def _ids(questions: Sequence[Question]) -> str:
    return ", ".join(f"`{question.id}`" for question in questions)


def as_object(question: Question) -> dict[str, Any]:
    """A question for programs."""
    from dataclasses import asdict

    shown = asdict(question)
    del shown["seal"]
    return {"approval_id": shown.pop("id"), **shown}


def as_text(question: Question, *, digest: bool = False) -> str:
    """A question for people, to the last character of its arguments; its digest is for a terminal only."""
    from datetime import UTC, datetime

    from db.clock import moment
    from server.cli.terminal.output import one_line
    from server.wording import duration

    left = (moment(question.expires_at) - datetime.now(UTC)).total_seconds()
    facts = [
        ("approval", question.id),
        ("agent", f"{one_line(question.agent)}, execution {question.execution_id}"),
        ("tool", one_line(question.tool)),
        ("arguments", question.exact),
        ("expires", f"{question.expires_at}, in {duration(left)}"),
    ]
    if digest:
        facts.insert(4, ("digest", question.digest))
    if question.kind == "repeat":
        facts.insert(3, ("note", "a restart cut this call off; whether it took effect is unknown, and it would run again"))
    return "\n".join(f"{name:<10} {value}" for name, value in facts)
