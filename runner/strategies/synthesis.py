"""synthesis: one model call without tools, and a second one if the answer does not fit its schema."""

from __future__ import annotations

from runner.core.history import History
from runner.messages import CORRECTION
from runner.result import Result, completed, partial
from runner.strategies.context import StrategyContext
from runner.strategies.loop.conversation import Conversation


class Synthesis:
    """Answers with one model call."""

    def __init__(self, context: StrategyContext) -> None:
        self._context = context
        self._talk = Conversation(context)
        self._opened = False
        self._spoken = False
        """Whether the transcript holds a message that was not answered before a stop."""

    @property
    def partial_output(self) -> str:
        """Its answer, if it has one."""
        return self._talk.transcript.last_text

    def restore(self, history: History) -> None:
        """Restore the transcript from rows."""
        self._talk.restore(history)
        last = next(row["id"] for row in reversed(history.own.messages) if row["kind"] != "compaction")
        self._spoken = any(row["kind"] == "message" and row["consumed_by"] == last for row in history.own.deliveries)

    async def run(self) -> Result:
        """Ask once, and again when a message arrives; other deliveries are only stored."""
        if not self._opened:
            await self._talk.open()
            self._opened = True
        spoken, self._spoken = self._spoken or self._context.inbox.spoken, False
        to_ask = spoken or not self.partial_output or self._talk.transcript.messages[-1].kind in ("task", CORRECTION)
        if self._context.inbox.waiting:
            await self._talk.drain()
        if to_ask:
            await self._talk.conclude()
        while (accepted := await self._talk.accepted(self._result())) is None:
            await self._talk.conclude()
        return accepted

    def _result(self) -> Result:
        reason = self._talk.transcript.shortfall or (None if self.partial_output else "empty_answers")
        return completed(self.partial_output) if reason is None else partial(self.partial_output, reason)
