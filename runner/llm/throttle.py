"""A limit on concurrent model calls over all executions of a service, for providers that allow only so many at once.

The limit is today's, also for executions that continue with the models of an older configuration. A call holds its place
only while the model answers, never while an execution waits for children or for its next attempt. So the limit can slow a
service down, but cannot deadlock it.
"""

from __future__ import annotations

from dataclasses import replace

import anyio

from registry import ModelSpec
from runner.llm.protocol import Model, ModelChooser, OnText, Pause, Reply, Request, RetryWait


class ThrottledModels:
    """Models that answer while they have one of the `places`, which several configurations share."""

    def __init__(self, models: ModelChooser, places: anyio.CapacityLimiter) -> None:
        self._models, self._places = models, places

    def choose(self, spec: ModelSpec) -> Model:
        """The model to ask; raises NoModel."""
        return _ThrottledModel(self._models.choose(spec), self._places)


class _ThrottledModel:
    """A `Model` that waits for a place before each attempt."""

    def __init__(self, model: Model, places: anyio.CapacityLimiter) -> None:
        self._model, self._places = model, places

    @property
    def rehearses(self) -> bool:
        return self._model.rehearses

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        place = _Place(self._places, request.pause)
        await place.take()
        try:
            return await self._model.complete(replace(request, pause=place.pause), on_text)
        finally:
            place.release()

    async def close(self) -> None:
        """The owner of the model closes it."""


class _Place:
    """The place of one call, over all its attempts."""

    def __init__(self, places: anyio.CapacityLimiter, pause: Pause | None) -> None:
        self._places, self._pause = places, pause
        self._taken = False

    async def take(self) -> None:
        await self._places.acquire()
        self._taken = True

    def release(self) -> None:
        if self._taken:
            self._taken = False
            self._places.release()

    async def pause(self, wait: RetryWait) -> None:
        """Wait for the next attempt, with the place released."""
        self.release()
        if self._pause is not None:
            await self._pause(wait)
        else:
            await anyio.sleep(wait.seconds)
        await self.take()
