"""."""

from __future__ import annotations

from typing import Protocol

from runner.core.history import Past
from runner.result import Result


class Strategy(Protocol):
    """How an agent behaves. Re-entrant: `run` is called again when something arrived after its answer, and `recall` before
    it where rows know how far the work had come.
    """

    def recall(self, past: Past) -> None:
        """Know again what was known when those rows were written."""
        ...

    async def run(self) -> Result:
        """Work until there is an answer."""
        ...

    @property
    def found(self) -> str:
        """What there is to show so far."""
        ...
