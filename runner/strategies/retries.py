"""The attempts of an execution that may be repeated: one that fails in a way another may not is followed by the next,
inside the same execution.

Owns how an attempt ends and the next begins: with its first message once more, told what went wrong, and with all of its
time. That message is a row, so after a crash the attempt that was under way goes on. Terminal stays final: the end of an
execution is the end of its last attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from pydantic_core import to_json

from db.ids import new_id
from db.rows.transcript import MessageDraft
from runner.core import turn_facts
from runner.core.ending import Cause, End, verdict
from runner.core.history import Past, read_past
from runner.errors import first_cause
from runner.messages import clean
from runner.result import Outcome, Problem, Result
from runner.text import inert

if TYPE_CHECKING:
    from runner.core.execution import Execution

AGAIN = "An earlier attempt at this failed. Begin anew, and avoid what went wrong."


class Attempts:
    """Runs the strategy of an execution until an attempt does not fail, or none is left."""

    __slots__ = ("_of", "_used")

    def __init__(self, execution: Execution) -> None:
        self._of = execution
        self._used = 0
        """Attempts that failed."""

    def recall(self, past: Past) -> None:
        """Know again how many attempts had failed, and how many turns they had taken."""
        beginnings = [at for at, row in enumerate(past.own.messages) if row["kind"] == "task" and row["position"] > 0]
        self._used = len(beginnings)
        if beginnings:
            replies = sum(row["role"] == "assistant" for row in past.own.messages[: beginnings[-1]])
            self._of.allowance.earlier_turns = replies

    async def run(self) -> End:
        """The end of the last attempt."""
        while True:
            end = await self._attempt()
            problem = _failure(end)
            if problem is None or not problem.recoverable or not self._another():
                return end
            await self._begin_again(problem)

    async def _attempt(self) -> End:
        execution = self._of
        end: End | None = None
        assert execution.strategy is not None
        with anyio.CancelScope() as scope:
            execution.allowance.bind(scope)
            try:
                end = await execution.strategy.run()
            except Exception as error:
                end = first_cause(error)
        return end if end is not None else Cause("deadline", seconds=execution.allowance.timeout)

    def _another(self) -> bool:
        """Whether there is another attempt, and time for it, and nobody wants a conclusion."""
        execution, above = self._of, self._of.parent
        wanted = execution.cause is None and execution.allowance.may_repeat
        return self._used < execution.request.retries and wanted and (above is None or above.allowance.wrap_up is None)

    async def _begin_again(self, problem: Problem) -> None:
        execution, old = self._of, self._of.work
        assert old is not None
        self._used += 1
        await old.settle_children(cancel=True)
        if old.toolbox is not None:
            await old.toolbox.tools.close()
        execution.allowance.begin_again()
        past = await self._past()
        position = max(row["position"] for row in past.own.messages) + 1
        failure = f"{AGAIN}\n<attempt>{inert(problem.message)}</attempt>"
        text = f"{old.quoted}\n\n{failure}"
        content = clean(to_json([{"type": "text", "text": text}]).decode())
        first = MessageDraft(new_id(), execution.id, position, "user", "task", content)
        told = {"attempt": self._used + 1, "of": execution.request.retries + 1, "error": problem.message}
        told |= {"step_id": execution.request.step} if execution.request.step is not None else {}
        fact = turn_facts.BeganAgain(execution.place, execution.name, execution.attempt, execution.deadline(), first, told)
        await execution.services.recorder.record_fenced(fact, execution.id, shielded=True)
        execution.work, execution.strategy = execution.habitat.begin(execution)
        execution.work.warnings, execution.work.rehearsed = old.warnings, old.rehearsed
        execution.strategy.recall(await self._past())

    async def _past(self) -> Past:
        return await read_past(self._of.services.database.reads, self._of.id, None)


def _failure(end: End) -> Problem | None:
    """Why an attempt failed, if it did."""
    if isinstance(end, Result) and end.outcome is not Outcome.FAILED:
        return None
    errors = verdict(end, "").result.errors
    return errors[0] if errors else Problem("failed", "it failed", recoverable=True)
