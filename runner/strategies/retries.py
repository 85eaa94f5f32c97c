"""Retries: a strategy around a strategy. An attempt with a recoverable failure is followed by another one.

Owns how the next attempt starts: with its first message again, the error of the last attempt, and the full timeout. That
message is a row, so a resumed execution continues with the current attempt. Terminal stays final: the end of an execution
is the end of its last attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from pydantic_core import to_json

from db.ids import new_id
from db.rows.transcript import MessageDraft
from runner.core.history import Past
from runner.core.strategy import Strategy
from runner.core.verdict import Cause, End, verdict
from runner.errors import first_cause
from runner.messages import clean
from runner.record import turn_facts
from runner.result import Outcome, Problem, Result
from runner.strategies.context import Work
from runner.text import inert

AGAIN = "An earlier attempt at this failed. Start again, and avoid what went wrong."


class Retries:
    """Runs attempts until one does not fail, or none is left."""

    def __init__(
        self,
        make: Callable[[], tuple[Work, Strategy]],
        read: Callable[[], Awaitable[Past]],
        deadline: Callable[[], str],
        wanted: Callable[[], bool],
    ) -> None:
        self._make, self._read = make, read
        self._deadline, self._wanted = deadline, wanted
        self._work, self._strategy = make()
        self._used = 0
        """The number of failed attempts."""

    @property
    def partial_output(self) -> str:
        """The partial output of the current attempt."""
        return self._strategy.partial_output

    def restore(self, past: Past) -> None:
        """Restore the current attempt: earlier ones have failed, and their turns do not count."""
        beginnings = [at for at, row in enumerate(past.own.messages) if row["kind"] == "task" and row["position"] > 0]
        self._used = len(beginnings)
        if beginnings:
            replies = sum(row["role"] == "assistant" for row in past.own.messages[: beginnings[-1]])
            self._work.allowance.earlier_turns = replies
        self._strategy.restore(past)

    async def run(self) -> Result | Cause:
        """Run attempts; returns the end of the last one, or raises its exception."""
        while True:
            end = await self._attempt()
            problem = _failure(end)
            if problem is None or not problem.recoverable or not self._another():
                if isinstance(end, Exception):
                    raise end
                assert isinstance(end, Result | Cause)
                return end
            await self._begin_again(problem)

    async def _attempt(self) -> End:
        allowance = self._work.allowance
        end: End | None = None
        with anyio.CancelScope() as scope:
            allowance.bind(scope)
            try:
                end = await self._strategy.run()
            except Exception as error:
                end = first_cause(error)
        return end if end is not None else Cause("deadline", seconds=allowance.timeout)

    def _another(self) -> bool:
        """Whether an attempt is left, and neither this execution nor its parent has to wrap up."""
        work = self._work
        return self._used < work.request.step.retries and work.allowance.may_repeat and self._wanted()

    async def _begin_again(self, problem: Problem) -> None:
        work = self._work
        self._used += 1
        await work.children.settle(cancel=True)
        await work.state.close()
        work.allowance.begin_again()
        past = await self._read()
        position = max(row["position"] for row in past.own.messages) + 1
        text = f"{work.quoted}\n\n{AGAIN}\n<attempt>{inert(problem.message)}</attempt>"
        content = clean(to_json([{"type": "text", "text": text}]).decode())
        first = MessageDraft(new_id(), work.place.id, position, "user", "task", content)
        step = work.request.step
        told = {"attempt": self._used + 1, "of": step.retries + 1, "error": problem.message}
        told |= {"step_id": step.id} if step.id is not None else {}
        fact = turn_facts.BeganAgain(work.place, work.name, work.epoch, self._deadline(), first, told)
        await work.recorder.record_fenced(fact, work.place.id, shielded=True)
        work.state.begin_again()
        self._work, self._strategy = self._make()
        self._strategy.restore(await self._read())


def _failure(end: End) -> Problem | None:
    """Why an attempt failed; None if it did not."""
    if isinstance(end, Result) and end.outcome is not Outcome.FAILED:
        return None
    errors = verdict(end, "").result.errors
    return errors[0] if errors else Problem("failed", "it failed", recoverable=True)
