"""Observed calls: the seams to models and tools, with observers told of each call.

Owns the two wrappers, and what is told. Must not know: spans, metrics. Invariant: a wrapper changes neither what is asked,
nor what comes back, nor what is raised; without observers there is no wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from db.clock import loop_time
from registry import Cost, ModelSpec, Settings
from runner.llm.protocol import Model, ModelChooser, OnText, Reply, Request
from runner.messages import Tool, ToolCall
from runner.snapshot import DISPATCH
from runner.telemetry.names import PIPE, TCP
from runner.telemetry.observer import (
    ModelCallOutcome,
    ObservedModelCall,
    ObservedToolCall,
    Observers,
    ToolCallOutcome,
)
from runner.tools.composite import CompositeTools
from runner.tools.protocol import ToolExecutor, ToolResult

CostOf = Callable[[ModelSpec, Reply], Cost]
"""The cost of a reply to a call of a model."""


class ObservedModels:
    """Models whose calls are observed."""

    def __init__(self, models: ModelChooser, cost_of: CostOf, observers: Observers) -> None:
        self._models, self._cost_of, self._observers = models, cost_of, observers

    def choose(self, spec: ModelSpec) -> Model:
        """The model to ask; raises NoModel."""
        return _ObservedModel(self._models.choose(spec), self._cost_of, self._observers)


class _ObservedModel:
    """A `Model` whose calls are observed, each over all its attempts."""

    def __init__(self, model: Model, cost_of: CostOf, observers: Observers) -> None:
        self._model, self._cost_of, self._observers = model, cost_of, observers

    @property
    def rehearses(self) -> bool:
        return self._model.rehearses

    async def complete(self, request: Request, on_text: OnText) -> Reply:
        begun, first, outcome = loop_time(), list[float](), ModelCallOutcome(0.0)

        def heard(text: str) -> None:
            if not first:
                first.append(loop_time() - begun)
            on_text(text)

        end = self._observers.model_call(ObservedModelCall(request, self._model.rehearses))
        try:
            reply = await self._model.complete(request, heard)
            outcome = replace(outcome, reply=reply, cost=self._cost_of(request.spec, reply))
            return reply
        except Exception as error:
            outcome = replace(outcome, error=error)
            raise
        finally:
            end(replace(outcome, seconds=loop_time() - begun, first_chunk=first[0] if first else None))

    async def close(self) -> None:
        """The owner of the model closes it."""


@dataclass(frozen=True, slots=True)
class ToolObservation:
    """The execution whose tools are observed, and its observers."""

    execution_id: str
    agent: str
    targets: frozenset[str]
    """The agents that it may dispatch."""
    settings: Settings
    observers: Observers


class ObservedTools(CompositeTools):
    """Tools whose calls are observed."""

    def __init__(
        self,
        layers: Sequence[ToolExecutor],
        permits: Callable[[Tool], bool],
        unavailable: Callable[[], Mapping[str, str]],
        seen: ToolObservation,
    ) -> None:
        super().__init__(layers, permits, unavailable)
        self._seen = seen

    async def call(self, call: ToolCall) -> ToolResult:
        """Make one call; raises nothing but cancellation."""
        begun, result = loop_time(), None
        end = self._seen.observers.tool_call(self._about(call))
        try:
            result = await super().call(call)
            return result
        finally:
            end(ToolCallOutcome(loop_time() - begun, result))

    def _about(self, call: ToolCall) -> ObservedToolCall:
        seen, tool = self._seen, self.tool(call.name)
        wanted = call.arguments.get("name") if call.name == DISPATCH else None
        upstream = seen.settings.upstreams.get(tool.server) if tool is not None else None
        return ObservedToolCall(
            execution_id=seen.execution_id,
            agent=seen.agent,
            call=call,
            tool=tool,
            target=wanted if isinstance(wanted, str) and wanted in seen.targets else None,
            transport=None if upstream is None else PIPE if upstream.command is not None else TCP,
        )
