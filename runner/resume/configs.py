"""Configurations by hash: an execution keeps the configuration it was started with, also after a restart with another one.

Owns one environment per configuration in use: today's and those of resumed executions. Tools that today's configuration
denies are denied to all of them. Invariant: a rehearsed execution never calls a real model after a resume or continuation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from registry import RegistryError, is_rehearsed
from runner.core.execution import Environment
from runner.core.services import Services
from runner.errors import Refusal, RunnerError


class UnknownConfiguration(RunnerError):
    """A configuration that is not stored."""


class Configurations:
    """Environments by the hash of their configuration; `make` builds services from a stored configuration."""

    def __init__(self, today: Environment, make: Callable[[str], Services] | None) -> None:
        self._today, self._make = today, make
        self._environments = {today.services.settings.hash: today}

    async def environment(self, config_hash: str) -> Environment:
        """The environment of a configuration; raises RegistryError or UnknownConfiguration when it cannot be restored."""
        if config_hash not in self._environments:
            body = await self._today.services.database.reads.snapshot(config_hash)
            if body is None or self._make is None:
                raise UnknownConfiguration("it is not stored", "start it again")
            self._environments[config_hash] = replace(self._today, services=self._make(body))
        return self._environments[config_hash]

    async def of_continuation(self, config_hash: str) -> Environment:
        """The environment for a continuation: today's, unless the ended execution was rehearsed; raises Refusal."""
        body = await self._today.services.database.reads.snapshot(config_hash)
        if body is None or not is_rehearsed(body):
            return self._today
        try:
            return await self.environment(config_hash)
        except (RegistryError, UnknownConfiguration) as error:
            message = f"it was only rehearsed, and its configuration cannot be restored: {error}"
            raise Refusal("no_model", message, "start a new execution") from error
