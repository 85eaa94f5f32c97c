"""Which model answers: the real one with a key, its rehearsal without, and nobody in secret.

Owns the choice and the adapters it made. Nothing else ever spends money or pretends to have asked a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from registry import NO_ENDPOINT_HINT, ModelSpec, lacks_endpoint, no_endpoint
from runner.errors import NoEndpoint, NoModel
from runner.llm.protocol import Model
from runner.provider_error import Hide

if TYPE_CHECKING:
    from runner.llm.anthropic import AnthropicModel


@dataclass(frozen=True, slots=True)
class Telling:
    """What explaining a failure needs besides the failure."""

    hide: Hide = lambda text: text
    """Hides the secrets of this process in what a provider says."""
    defined_at: Callable[[str], str] = lambda name: ""
    """Where the configuration names a model, as `config.yaml:7`."""


class Models:
    """The models of one configuration. `rehearse` keeps every one of them to its rehearsal."""

    def __init__(
        self,
        specs: Mapping[str, ModelSpec],
        environ: Mapping[str, str],
        *,
        rehearse: bool = False,
        pace: float = 0.0,
        telling: Telling | None = None,
    ) -> None:
        self._specs = specs
        self._telling = telling or Telling()
        self._environ = environ
        self._rehearse = rehearse
        self._pace = pace
        self._anthropic: AnthropicModel | None = None
        self._rehearsed: dict[Path, Model] = {}

    def choose(self, spec: ModelSpec) -> Model:
        """Who answers for `spec`; raises NoModel."""
        if self._environ.get(spec.api_key_env) and not self._rehearse:
            for each in (spec, *(self._specs[name] for name in spec.fallback if name in self._specs)):
                if lacks_endpoint(each, self._environ):
                    raise NoEndpoint(no_endpoint(each), NO_ENDPOINT_HINT)
            return self._real()
        if spec.rehearsal is not None:
            return self._rehearsal(spec.rehearsal)
        raise NoModel(spec.name, spec.api_key_env)

    def check(self, specs: Sequence[ModelSpec]) -> None:
        """Refuse before anything is written; raises NoModel, or ModelError for a broken rehearsal."""
        for spec in specs:
            self.choose(spec)

    async def prepare(self) -> None:
        """Get ready what the first call of a real model would wait for; nothing is asked."""
        if not self._rehearse and any(self._environ.get(spec.api_key_env) for spec in self._specs.values()):
            await anyio.to_thread.run_sync(import_module, "runner.llm.anthropic")
            await self._real().prepare()

    def _real(self) -> AnthropicModel:
        if self._anthropic is None:
            from runner.llm.anthropic import AnthropicModel

            telling = self._telling
            self._anthropic = AnthropicModel(self._specs, self._environ, None, telling.hide, telling.defined_at)
        return self._anthropic

    def _rehearsal(self, script: Path) -> Model:
        if script not in self._rehearsed:
            from runner.llm.rehearsal.model import RehearsedModel
            from runner.llm.rehearsal.script import load_rehearsal

            rehearsal = load_rehearsal(script)
            self._rehearsed[script] = RehearsedModel(rehearsal, pace=self._pace)
        return self._rehearsed[script]

    async def close(self) -> None:
        """Release connections."""
        for model in (self._anthropic, *self._rehearsed.values()):
            if model is not None:
                await model.close()
