"""The anthropic adapter: models behind the Anthropic API, or any endpoint that speaks it.

Owns the endpoints, the breakers, and the order of a model and its fallbacks. Invariant: a key is read from the environment
at each use, and kept only in the endpoint that sends it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from registry import ModelSpec
from registry.specs.secrets import MASK
from runner.llm.breaker import Breaker, BreakerSettings
from runner.llm.endpoint import Endpoint
from runner.llm.exchange import exchange, request_body
from runner.llm.failures import AskedModel, FailureOf, failure_of, missing_key
from runner.llm.protocol import OnText, Reply, Request
from runner.llm.retrying import ModelCandidate, Retrying
from runner.provider_error import Hide


class AnthropicModel:
    """A `Model` that calls the API; fallbacks are looked up in `models`."""

    rehearses = False

    def __init__(
        self,
        models: Mapping[str, ModelSpec],
        environ: Mapping[str, str] = os.environ,
        settings: BreakerSettings | None = None,
        hide: Hide = lambda text: text,
        defined_at: Callable[[str], str] = lambda name: "",
    ) -> None:
        self._models = models
        self._environ = environ
        self._settings = settings or BreakerSettings()
        self._hide = hide
        self._defined_at = defined_at
        """Where the configuration defines a model, for hints."""
        self._endpoints: dict[tuple[str | None, str], Endpoint] = {}
        self._making = anyio.Lock()
        self._breakers: dict[str | None, Breaker] = {}
        self._known: dict[str, FailureOf] = {}

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        """Ask the model of the request, and its fallbacks while it fails, as long as its `retry` allows."""
        call = _Call(request, on_text)
        specs = (request.spec, *(self._models[name] for name in request.spec.fallback))
        candidates = [ModelCandidate(spec.name, partial(self._attempt, call, spec), self._failures(spec)) for spec in specs]
        return await Retrying(request.spec.retry, candidates, request.pause).ask()

    async def prepare(self) -> None:
        """Prepare the endpoints of models with a key; a missing key is reported when the model is asked."""
        for spec in self._models.values():
            if self._environ.get(spec.api_key_env):
                await self._endpoint(spec)

    async def close(self) -> None:
        while self._endpoints:
            _, endpoint = self._endpoints.popitem()
            await endpoint.close()

    async def _attempt(self, call: _Call, spec: ModelSpec) -> Reply:
        endpoint, body = await self._endpoint(spec), request_body(call.request, spec)
        breaker = self._breaker(self._address(spec))
        return await breaker.through(partial(call.send, endpoint, body, spec), self._failures(spec))

    def _failures(self, spec: ModelSpec) -> FailureOf:
        """Says what the errors of this model mean; made once, because it is needed at every call."""
        known = self._known.get(spec.name)
        if known is None:
            asked = AskedModel(spec, partial(self._masked, spec.api_key_env), self._defined_at(spec.name))
            known = self._known[spec.name] = partial(failure_of, asked=asked)
        return known

    def _masked(self, key_env: str, text: str) -> str:
        key = self._environ.get(key_env)
        return self._hide(text.replace(key, MASK) if key else text)

    def _address(self, spec: ModelSpec) -> str | None:
        return spec.base_url or self._environ.get("ANTHROPIC_BASE_URL") or None

    def _breaker(self, address: str | None) -> Breaker:
        if address not in self._breakers:
            # Only the host is shown: a URL may contain a password.
            shown = urlsplit(address).hostname if address is not None else None
            self._breakers[address] = Breaker(shown or "api.anthropic.com", self._settings)
        return self._breakers[address]

    async def _endpoint(self, spec: ModelSpec) -> Endpoint:
        key = self._environ.get(spec.api_key_env)
        if not key:
            raise missing_key(spec)
        place = self._address(spec), spec.api_key_env
        if place not in self._endpoints:
            async with self._making:
                if place not in self._endpoints:
                    # An HTTP client is imported: in a thread, so that running agents are not blocked.
                    self._endpoints[place] = await anyio.to_thread.run_sync(Endpoint, place[0], key)
        endpoint = self._endpoints[place]
        endpoint.use_key(key)
        return endpoint


class _Call:
    """One call of an agent, over all its attempts."""

    def __init__(self, request: Request, on_text: OnText) -> None:
        self.request = request
        self.on_text = on_text
        self.made = 0

    async def send(self, endpoint: Endpoint, body: bytes, spec: ModelSpec) -> Reply:
        """Make an attempt. It is counted and reported before: text that an earlier attempt streamed is then void."""
        self.made += 1
        if self.request.on_attempt is not None:
            self.request.on_attempt(spec.name, self.made)
        number = self.made
        reply = await exchange(endpoint, body, spec, self.on_text)
        return reply if number == 1 else replace(reply, attempts=number)
