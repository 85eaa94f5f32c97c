"""function: a Python callable instead of a model, named in the configuration or registered by an embedding program."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from registry import AgentSpec, misfits
from runner.core.history import History
from runner.errors import InvalidInput, first_cause
from runner.messages import clean_data
from runner.result import OWN_WORDS, Outcome, Problem, Result, completed, failed, signalled, summarise
from runner.returns import folders_of, kept
from runner.strategies.child_tracker import InboxReader
from runner.strategies.context import StrategyContext

log = logging.getLogger("outrider.function")


class Function:
    """Calls the callable once: its return value is the answer, an exception is the failure."""

    def __init__(self, context: StrategyContext) -> None:
        assert context.function is not None
        self._context = context
        self._function = context.function
        self._reader = InboxReader(context)
        self._answer: Result | None = None

    @property
    def partial_output(self) -> str:
        """Its answer, if it has one."""
        return self._answer.text if self._answer is not None else ""

    def restore(self, history: History) -> None:
        """Nothing to restore: an interrupted function is called again from the start."""
        self._reader.restore(history)

    async def run(self) -> Result:
        """Call it once; a delivery that arrives later does not call it again."""
        if self._answer is None:
            await self._context.pause()
            self._context.set_activity("working")
            with self._context.shutdown:
                self._answer = await self._called()
        await self._reader.read()
        return self._answer

    async def _called(self) -> Result:
        name = self._context.name
        try:
            return self._fitting(signalled(self._result(await self._function())))
        except InvalidInput as error:
            message = f"the function of `{name}` was not called: {error}"
            return failed(Problem("invalid_input", message, recoverable=False, recommendation=error.hint))
        except (Exception, SystemExit) as error:  # `sys.exit()` in a function ends that function only
            log.warning("the function of `%s` failed", name, exc_info=True)
            cause = first_cause(error) if isinstance(error, Exception) else error
            message = f"the function of `{name}` raised {type(cause).__name__}"
            return failed(Problem("function_failed", f"{message}: {cause}" if str(cause) else message, severity="high"))

    def _fitting(self, answer: Result) -> Result:
        """The answer, or a failure if a completed answer does not fit the agent's schema."""
        agent = self._context.subject
        schema = agent.output_schema if isinstance(agent, AgentSpec) else None
        if schema is None or answer.outcome is not Outcome.COMPLETED:
            return answer
        faults = "; ".join(misfits(answer.output, schema))
        if not faults:
            return answer
        message = f"the function of `{self._context.name}` returned a value that does not fit its `output_schema`: {faults}"
        return failed(Problem("validation", message, severity="high", recoverable=False), answer.text)

    def _result(self, returned: object) -> Result:
        if isinstance(returned, Result):
            return replace(returned, signals={**returned.signals, OWN_WORDS: True}) if returned.errors else returned
        value = _data(returned)
        agent = self._context.subject
        if isinstance(agent, AgentSpec) and agent.returns:
            return kept(value, self._context.session, folders_of(agent))
        if isinstance(value, str):
            return completed(value)
        said = value.get("summary") if isinstance(value, Mapping) else "done" if value is None else None
        return Result(Outcome.COMPLETED, summarise(said if isinstance(said, str) and said else str(value)), value)


def _data(returned: object) -> Any:
    """The return value as JSON data; models and dataclasses become objects."""
    if isinstance(returned, BaseModel) or is_dataclass(returned):
        try:
            return to_jsonable_python(returned)
        except PydanticSerializationError:
            return clean_data(str(returned))
    return clean_data(returned)  # it may hold lone surrogates, for example from a file name
