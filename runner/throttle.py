"""A limit on the model calls in flight, over all executions of a service: for providers that allow only so many at once.

Owns the waiting. It is one limit, today's, also where executions go on with the models of an older configuration. A call
holds its place only while the model answers, never while an execution waits for its children, so the limit can make a
service slow but cannot make it stand still.
"""

from __future__ import annotations

import anyio

from registry import ModelSpec
from runner.llm.protocol import Model, OnText, Reply, Request
from runner.services import ChoosesModels


class Throttle:
    """So many calls at once, whichever models are asked."""

    def __init__(self, calls: int) -> None:
        self._places = anyio.CapacityLimiter(calls)

    def over(self, models: ChoosesModels) -> ChoosesModels:
        """The same models, within this limit."""
        return _ThrottledModels(models, self._places)


class _ThrottledModels:
    """Chooses models as others do, and lets them answer when there is a place."""

    def __init__(self, models: ChoosesModels, places: anyio.CapacityLimiter) -> None:
        self._models, self._places = models, places

    def choose(self, spec: ModelSpec) -> Model:
        """The model to ask; raises NoModel."""
        return _Throttled(self._models.choose(spec), self._places)


class _Throttled:
    """A `Model` that waits for a place before it asks another."""

    def __init__(self, model: Model, places: anyio.CapacityLimiter) -> None:
        self._model, self._places = model, places

    @property
    def rehearses(self) -> bool:
        """Whether the other does."""
        return self._model.rehearses

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Answer, once there is a place."""
        async with self._places:
            return await self._model.complete(request, on_text)

    async def close(self) -> None:
        """Whoever made the model closes it."""
