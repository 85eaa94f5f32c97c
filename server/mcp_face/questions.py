"""Questions: what executions ask of people, while they wait for the answer. Tasks show them as `input_required`.

Owns what is open and who waits for it, in this process. Must not know: who asks, or how an answer gets here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio


@dataclass(slots=True)
class _Question:
    request: Mapping[str, Any]
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: Any = None


class Questions:
    """The open questions, by execution and name."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, _Question]] = {}

    async def ask(self, execution: str, name: str, request: Mapping[str, Any]) -> Any:
        """Wait for the answer to a question, which is an MCP request such as `elicitation/create`."""
        question = self._open.setdefault(execution, {})[name] = _Question(request)
        try:
            await question.answered.wait()
        finally:
            self._forget(execution, name)
        return question.answer

    def pending(self, execution: str) -> Mapping[str, Mapping[str, Any]]:
        """What an execution asks at the moment, by name."""
        return {name: question.request for name, question in self._open.get(execution, {}).items()}

    def answer(self, execution: str, answers: Mapping[str, Any]) -> None:
        """Answers by name; those nobody asked for change nothing."""
        for name in answers.keys() & self._open.get(execution, {}).keys():
            question = self._open[execution][name]
            question.answer = answers[name]
            question.answered.set()
            self._forget(execution, name)

    def _forget(self, execution: str, name: str) -> None:
        questions = self._open.get(execution, {})
        questions.pop(name, None)
        if not questions:
            self._open.pop(execution, None)
