"""function: a Python callable instead of a model. The program that embeds Outrider registers it by the agent's name."""

from __future__ import annotations

import logging

from registry import AgentSpec
from runner.errors import first_cause
from runner.notebook import Notebook
from runner.past import Past
from runner.result import Outcome, Problem, Result, completed, failed, summarise
from runner.returns import kept
from runner.signals import signalled
from runner.transcript import clean_data
from runner.work import Work

log = logging.getLogger("outrider.function")


class Function:
    """Calls once; what the callable returns is the answer, what it raises is the failure."""

    def __init__(self, work: Work) -> None:
        assert work.function is not None
        self._work = work
        self._function = work.function
        self._notebook = Notebook(work)
        self._answer: Result | None = None

    @property
    def found(self) -> str:
        """Its answer, once it has one."""
        return self._answer.text if self._answer is not None else ""

    def recall(self, past: Past) -> None:
        """It is called again from the beginning: what a function did before, nobody knows."""
        self._notebook.recall(past)

    async def run(self) -> Result:
        """Call it, unless it has answered already: what arrives later does not call it again."""
        if self._answer is None:
            await self._work.pause()
            self._work.now("working")
            with self._work.draining:
                self._answer = await self._called()
        await self._notebook.read()
        return self._answer

    async def _called(self) -> Result:
        try:
            return signalled(self._result(await self._function(self._work.task, self._work.input)))
        except Exception as error:
            log.warning("the function of `%s` failed", self._work.name, exc_info=True)
            cause = first_cause(error)
            message = f"the function of `{self._work.name}` raised {type(cause).__name__}"
            return failed(Problem("function_failed", f"{message}: {cause}" if str(cause) else message, severity="high"))

    def _result(self, returned: object) -> Result:
        if isinstance(returned, Result):
            return returned
        value = clean_data(returned)  # a function may return anything, half a character of a file's name included
        if isinstance(self._work.subject, AgentSpec) and self._work.subject.returns:
            return kept(value, self._work.session)
        if isinstance(value, str):
            return completed(value)
        return Result(Outcome.COMPLETED, summarise(str(value)), value)
