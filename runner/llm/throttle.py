"""A limit on the model calls in flight, over all executions of a service: for providers that allow only so many at once.

Owns the waiting. It is one limit, today's, also where executions go on with the models of an older configuration. A call
holds its place only while the model answers, never while an execution waits for its children or for another attempt, so
the limit can make a service slow but cannot make it stand still.
"""

from __future__ import annotations

from dataclasses import replace

import anyio

from registry import ModelSpec
from runner.llm.protocol import ChoosesModels, Model, OnText, Pause, Reply, Request, RetryWait


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


class _Place:
    """The place of one call, over all its attempts."""

    def __init__(self, places: anyio.CapacityLimiter, pause: Pause | None) -> None:
        self._places, self._pause = places, pause
        self._held = False

    async def begin(self) -> None:
        """Wait for a place, and take it."""
        await self._places.acquire()
        self._held = True

    def end(self) -> None:
        """Give the place back, if there is one."""
        if self._held:
            self._held = False
            self._places.release()

    async def pause(self, wait: RetryWait) -> None:
        """Wait for the next attempt without a place."""
        self.end()
        if self._pause is not None:
            await self._pause(wait)
        else:
            await anyio.sleep(wait.seconds)
        await self.begin()


class _Throttled:
    """A `Model` that waits for a place before it asks another."""

    def __init__(self, model: Model, places: anyio.CapacityLimiter) -> None:
        self._model, self._places = model, places

    @property
    def rehearses(self) -> bool:
        """Whether the other does."""
        return self._model.rehearses

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Answer, once there is a place; a call that waits for its next attempt gives its place to others meanwhile."""
        turn = _Place(self._places, request.pause)
        await turn.begin()
        try:
            return await self._model.complete(replace(request, pause=turn.pause), on_text)
        finally:
            turn.end()

    async def close(self) -> None:
        """Whoever made the model closes it."""
