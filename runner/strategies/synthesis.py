"""synthesis: one model call without tools."""

from __future__ import annotations

from runner.conversation import Conversation
from runner.result import Result, completed, partial
from runner.work import Work


class Synthesis:
    """Answers in one go."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._talk = Conversation(work)
        self._asked = False

    @property
    def found(self) -> str:
        """Its answer, once it has one."""
        return self._talk.transcript.last_text

    async def run(self) -> Result:
        """Ask once; what arrives later is only noted."""
        if not self._asked:
            await self._talk.open()
            await self._talk.ask(with_tools=False)
            self._asked = True
        if self._work.inbox.waiting:
            await self._talk.drain()
        reason = self._talk.transcript.shortfall or (None if self.found else "empty_answers")
        return completed(self.found) if reason is None else partial(self.found, reason)
