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
from runner.core.history import History
from runner.core.strategy import Strategy
from runner.core.verdict import Cause, End, verdict
from runner.errors import first_cause
from runner.messages import clean
from runner.record import turn_facts
from runner.result import Outcome, Problem, Result
from runner.strategies.context import StrategyContext
from runner.text import escape_blocks

AGAIN = "An earlier attempt at this failed. Start again, and avoid what went wrong."


class Retries:
    """Runs attempts until one does not fail, or none is left."""

    def __init__(
        self,
        make: Callable[[], tuple[StrategyContext, Strategy]],
        read: Callable[[], Awaitable[History]],
        deadline: Callable[[], str],
        wanted: Callable[[], bool],
    ) -> None:
        self._make, self._read = make, read
        self._deadline, self._wanted = deadline, wanted
        self._context, self._strategy = make()
        self._used = 0
        """The number of failed attempts."""

    @property
    def partial_output(self) -> str:
        """The partial output of the current attempt."""
        return self._strategy.partial_output

    def restore(self, history: History) -> None:
        """Restore the current attempt: earlier ones have failed, and their turns do not count."""
        beginnings = [at for at, row in enumerate(history.own.messages) if row["kind"] == "task" and row["position"] > 0]
        self._used = len(beginnings)
        if beginnings:
            replies = sum(row["role"] == "assistant" for row in history.own.messages[: beginnings[-1]])
            self._context.allowance.earlier_turns = replies
        self._strategy.restore(history)

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
        allowance = self._context.allowance
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
        context = self._context
        return self._used < context.request.step.retries and context.allowance.may_repeat and self._wanted()

    async def _begin_again(self, problem: Problem) -> None:
        context = self._context
        self._used += 1
        await context.children.settle(cancel=True)
        await context.state.close()
        context.allowance.begin_again()
        history = await self._read()
        position = max(row["position"] for row in history.own.messages) + 1
        text = f"{context.quoted}\n\n{AGAIN}\n<attempt>{escape_blocks(problem.message)}</attempt>"
        content = clean(to_json([{"type": "text", "text": text}]).decode())
        first = MessageDraft(new_id(), context.place.id, position, "user", "task", content)
        step = context.request.step
        told = {"attempt": self._used + 1, "of": step.retries + 1, "error": problem.message}
        told |= {"step_id": step.id} if step.id is not None else {}
        fact = turn_facts.BeganAgain(context.place, context.name, context.epoch, self._deadline(), first, told)
        await context.recorder.record_fenced(fact, context.place.id, shielded=True)
        context.state.begin_again()
        self._context, self._strategy = self._make()
        self._strategy.restore(await self._read())


def _failure(end: End) -> Problem | None:
    """Why an attempt failed; None if it did not."""
    if isinstance(end, Result) and end.outcome is not Outcome.FAILED:
        return None
    errors = verdict(end, "").result.errors
    return errors[0] if errors else Problem("failed", "it failed", recoverable=True)
