"""loop: model and tools, turn by turn, until there is an answer. With agents to dispatch it orchestrates, without a special
case: dispatching is one more tool, and results arrive through the inbox.
"""

from __future__ import annotations

from runner.budget.budget import REASONS
from runner.core.history import History
from runner.core.views import reports_of
from runner.record import facts
from runner.result import Result, completed, partial
from runner.strategies.context import StrategyContext
from runner.strategies.loop.conversation import Conversation
from runner.strategies.loop.notes import GO_ON, SAY_SOMETHING
from runner.strategies.loop.step import (
    Action,
    AskAgain,
    AskModel,
    Conclude,
    Continue,
    Drain,
    Finish,
    Mail,
    RunTools,
    SettleChildren,
    Wait,
    step,
)

NO_CONCLUSION = "There was no conclusion ({reason})."
WRITTEN, REPORTED = "It wrote {paths}.", "Its agents reported:"


class Loop:
    """One agent's loop."""

    __slots__ = ("_context", "_opened", "_reason", "_talk")

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._talk = Conversation(context)
        self._opened = False
        self._reason: str | None = None

    @property
    def partial_output(self) -> str:
        """Its reported result, or the newest text of its model."""
        return self._context.state.final.text if self._context.state.final is not None else self._talk.transcript.last_text

    def restore(self, history: History) -> None:
        """Restore the transcript, and whether a conclusion was asked for."""
        self._reason = self._talk.restore(history)
        for unpaid in REASONS.values():
            if self._reason == unpaid:
                self._context.allowance.ask_to_wrap_up(unpaid)
        if any(row["kind"] == "wrap_up" and row["consumed_at"] is not None for row in history.own.deliveries):
            self._context.allowance.ask_to_wrap_up()

    async def run(self) -> Result:
        """Take one action after another. Ordinary work ends when the wrap-up begins."""
        context, talk = self._context, self._talk
        if not self._opened:
            await self._open()
        while True:
            talk.transcript.final = context.state.final
            inbox = context.inbox
            mail = Mail(inbox.arrived, inbox.pending, inbox.ready, inbox.spoken)
            cancel_on_finish = context.limits.on_finish == "cancel"
            action = step(talk.transcript, mail, context.allowance.wrap_up, cancel_on_finish=cancel_on_finish)
            if (accepted := await self._carry_out(action)) is not None:
                return accepted

    async def _open(self) -> None:
        with self._context.allowance.before_wrap_up():
            await self._talk.open()
        self._opened = True

    async def _carry_out(self, action: Action) -> Result | None:
        """Carry out an action; the result, once there is an accepted one."""
        context, talk = self._context, self._talk
        match action:
            case Finish():
                return await talk.accepted(self._result())
            case AskModel():
                await self._ask()
            case RunTools():
                with context.allowance.before_wrap_up():
                    await talk.run_tools()
            case Drain():
                if self._stands:
                    context.state.final = self._result()
                await talk.drain()
            case Wait():
                await self._wait()
            case AskAgain() | Continue():
                await talk.remark(SAY_SOMETHING if isinstance(action, AskAgain) else GO_ON)
                await self._ask()
            case SettleChildren(cancel):
                await self._settle(cancel=cancel)
            case Conclude(reason):
                self._reason = reason
                await talk.ask_to_conclude(reason)
                await talk.conclude()
        return None

    async def _settle(self, *, cancel: bool) -> None:
        context = self._context
        context.set_activity("settling its agents")
        if cancel and context.state.final is None:
            # The answer counts, whatever its agents still report.
            context.state.final = completed(self._talk.transcript.last_text)
        await context.children.settle(cancel=cancel)

    async def _ask(self) -> None:
        """Call the model, or wait for agents that return the rest of their budgets when they end."""
        if not await self._talk.ask() and self._context.allowance.wrap_up is None:
            await self._wait()

    @property
    def _stands(self) -> bool:
        """Whether there is an answer, and nothing arrived but the request to conclude."""
        inbox, transcript = self._context.inbox, self._talk.transcript
        answered = transcript.resting and not transcript.empty_answers and not inbox.pending
        return answered and all(item.kind == "wrap_up" for item in inbox.waiting)

    async def _wait(self) -> None:
        context = self._context
        context.set_activity(
            f"waiting for {context.inbox.pending} agents" if context.inbox.pending > 1 else "waiting for an agent"
        )
        context.recorder.record_nowait(facts.Waiting(context.place, "children"))
        with context.allowance.before_wrap_up():
            await context.inbox.until_ready()
        context.recorder.record_nowait(facts.Waiting(context.place, None))

    def _result(self) -> Result:
        if self._context.state.final is not None:
            return self._context.state.final
        reason = self._reason or self._talk.transcript.shortfall
        if reason is not None:
            return partial(self._left(reason), reason)
        return completed(self._talk.transcript.last_text)

    def _left(self, reason: str) -> str:
        """The text of an incomplete answer: its own last text, and, if the model could not use them, the files it wrote and
        the reports of its agents.
        """
        transcript = self._talk.transcript
        if transcript.last_text and not transcript.exhausted and not transcript.empty_answers:
            return transcript.last_text
        reports = reports_of(self._context.children.ended.values())
        paths = ", ".join(f"`{each['path']}`" for each in self._context.state.artifacts)
        heading = NO_CONCLUSION.format(reason=reason) if reports or paths else ""
        heading += f" {WRITTEN.format(paths=paths)}" if paths else ""
        heading += f" {REPORTED}" if reports else ""
        return "\n\n".join(filter(None, (transcript.last_text, heading, reports)))
