"""A limit on the model calls in flight, over all executions of a service: for providers that allow only so many at once.

Owns the waiting. A call holds its place only while the model answers, never while an execution waits for its children, so
the limit can make a service slow but cannot make it stand still.
"""

from __future__ import annotations

import anyio

from registry import ModelSpec
from runner.llm.protocol import Model, OnText, Reply, Request
from runner.services import ChoosesModels


class ThrottledModels:
    """Chooses models as `models` does; all of them together answer at most so many calls at once."""

    def __init__(self, models: ChoosesModels, calls: int) -> None:
        self._models = models
        self._places = anyio.CapacityLimiter(calls)

    def choose(self, spec: ModelSpec) -> Model:
        """The model to ask; raises NoModel."""
        return _Throttled(self._models.choose(spec), self._places)


class _Throttled:
    """A `Model` that waits for a place before it asks another."""

    def __init__(self, model: Model, places: anyio.CapacityLimiter) -> None:
        self._model, self._places = model, places

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Answer, once there is a place."""
        async with self._places:
            return await self._model.complete(request, on_text)

    async def close(self) -> None:
        """Whoever made the model closes it."""
