"""The choice of a model's adapter: the real API with a key, the rehearsal without one, else a refusal.

Owns the choice and the adapters. Nothing else spends money or claims to have asked a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from registry import NO_ENDPOINT_HINT, ModelSpec, lacks_endpoint, no_endpoint
from runner.errors import BrokenRehearsal, NoEndpoint, NoModel
from runner.llm.protocol import Model, ModelError
from runner.provider_error import Hide

if TYPE_CHECKING:
    from runner.llm.anthropic import AnthropicModel


@dataclass(frozen=True, slots=True)
class FailureContext:
    """What the explanation of a failure needs."""

    hide: Hide = lambda text: text
    """Masks the secrets of this process in a provider's text."""
    defined_at: Callable[[str], str] = lambda name: ""
    """Where the configuration defines a model, as `config.yaml:7`."""


class Models:
    """The models of one configuration; with `rehearse` each plays its rehearsal."""

    def __init__(
        self,
        specs: Mapping[str, ModelSpec],
        environ: Mapping[str, str],
        *,
        rehearse: bool = False,
        pace: float = 0.0,
        failures: FailureContext | None = None,
    ) -> None:
        self._specs = specs
        self._failures = failures or FailureContext()
        self._environ = environ
        self._rehearse = rehearse
        self._pace = pace
        self._anthropic: AnthropicModel | None = None
        self._rehearsed: dict[Path, Model] = {}

    def choose(self, spec: ModelSpec) -> Model:
        """The adapter for `spec`; raises NoModel."""
        if self._environ.get(spec.api_key_env) and not self._rehearse:
            for each in (spec, *(self._specs[name] for name in spec.fallback if name in self._specs)):
                if lacks_endpoint(each, self._environ):
                    raise NoEndpoint(no_endpoint(each), NO_ENDPOINT_HINT)
            return self._real()
        if spec.rehearsal is not None:
            return self._rehearsal(spec.rehearsal)
        raise NoModel(spec.name, spec.api_key_env)

    def check(self, specs: Sequence[ModelSpec]) -> None:
        """Check before anything is written; raises NoModel."""
        for spec in specs:
            self.choose(spec)

    async def prepare(self) -> None:
        """Import and connect in advance for the first real call; nothing is asked."""
        if not self._rehearse and any(self._environ.get(spec.api_key_env) for spec in self._specs.values()):
            await anyio.to_thread.run_sync(import_module, "runner.llm.anthropic")
            await self._real().prepare()

    def _real(self) -> AnthropicModel:
        if self._anthropic is None:
            from runner.llm.anthropic import AnthropicModel

            failures = self._failures
            self._anthropic = AnthropicModel(self._specs, self._environ, None, failures.hide, failures.defined_at)
        return self._anthropic

    def _rehearsal(self, script: Path) -> Model:
        if script not in self._rehearsed:
            from runner.llm.rehearsal.model import RehearsedModel
            from runner.llm.rehearsal.script import load_rehearsal

            try:
                rehearsal = load_rehearsal(script)
            except ModelError as error:
                raise BrokenRehearsal(str(error), error.hint) from error
            self._rehearsed[script] = RehearsedModel(rehearsal, pace=self._pace)
        return self._rehearsed[script]

    async def close(self) -> None:
        """Release connections."""
        for model in (self._anthropic, *self._rehearsed.values()):
            if model is not None:
                await model.close()
