"""Metrics of this process, as Prometheus reads them.

Owns the instruments and their labels. Counters and durations are fed by observations, gauges are read at the scrape; all
are of this process. Must not know: HTTP. Invariant: no label holds an id, a user or a task; the values of a label are names
of the configuration or of a closed set, and after `MOST_VALUES` further ones are `other`.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from db.status import ExecutionStatus
from runner.budget.budget import REASONS
from runner.llm.protocol import ModelError
from runner.telemetry import names
from runner.telemetry.names import in_prometheus
from runner.telemetry.observer import (
    ExecutionOutcome,
    ModelCallOutcome,
    ObservedExecution,
    ObservedModelCall,
    ObservedRequest,
    ObservedToolCall,
    RequestOutcome,
    ToolCallOutcome,
)

if TYPE_CHECKING:
    from runner.service.dispatcher import Dispatcher

MOST_VALUES = 300
"""Values of one label; there are fewer unless a server or a provider invents names."""
REST = "other"

CALLS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Buckets for model and tool calls, in seconds, as the conventions advise."""
WORK = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Buckets for executions, in seconds."""

PROVIDER, MODEL, ERROR = in_prometheus(names.PROVIDER), in_prometheus(names.REQUEST_MODEL), in_prometheus(names.ERROR)
AGENT, WORKFLOW, TOOL = in_prometheus(names.AGENT), in_prometheus(names.WORKFLOW), in_prometheus(names.TOOL)
OPERATION, METHOD = in_prometheus(names.OPERATION), in_prometheus(names.MCP_METHOD)
REHEARSAL = "outrider.rehearsal"

TOKENS = (names.INFERENCE_INPUT, names.INFERENCE_OUTPUT, names.INFERENCE_CACHE_READ, names.INFERENCE_CACHE_WRITE)


class Metrics:
    """An observer that counts."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the moment a series began says nothing here
        self.registry = CollectorRegistry()
        self._values: dict[str, set[str]] = defaultdict(set)
        self._models()
        self._executions()
        self._calls()

    def _models(self) -> None:
        labels = (OPERATION, PROVIDER, MODEL)
        self._inference = self._seconds(names.INFERENCE_DURATION, "Model calls, over all attempts", (*labels, ERROR), CALLS)
        self._tokens = {name: self._counter(name, "Tokens of model calls", labels) for name in TOKENS}
        self._cost = self._counter(names.COST_TOTAL, "Cost of model calls in US dollars", ("agent", "model"))

    def _executions(self) -> None:
        self._ended = self._counter(names.EXECUTIONS, "Ended executions", ("agent", "status", "outcome"))
        self._lasted = self._histogram(
            names.EXECUTION_SECONDS, "From spawn to end, without times when no process ran it", ("agent",), WORK
        )
        self._agents = self._seconds(names.INVOKE_AGENT_DURATION, "Executions of agents", (AGENT, ERROR), WORK)
        self._chains = self._seconds(names.INVOKE_WORKFLOW_DURATION, "Executions of chains", (WORKFLOW, ERROR), WORK)
        self._resumed = self._counter(names.RESUMED, "Executions taken over from other processes", ())
        self._exhausted = self._counter(names.BUDGET_EXHAUSTED, "Executions that ended for lack of budget", ())

    def _calls(self) -> None:
        self._tools = self._counter(names.TOOL_CALLS, "Tool calls that were carried out", ("server", "tool", "outcome"))
        self._tool_seconds = self._seconds(names.EXECUTE_TOOL_DURATION, "Tool calls", (TOOL, ERROR), CALLS)
        self._upstream = self._seconds(names.MCP_CLIENT_DURATION, "Calls of MCP servers", (METHOD, TOOL, ERROR), CALLS)
        self._requests = self._seconds(names.MCP_SERVER_DURATION, "Requests of MCP clients", (METHOD, TOOL, ERROR), CALLS)

    # -- observations --------------------------------------------------------------------------------------------------

    def execution(self, about: ObservedExecution) -> Callable[[ExecutionOutcome | None], None]:
        """Count an execution at its end."""
        agent = self._bounded("agent", about.agent)
        if about.attempt > 1:
            self._resumed.inc()

        def end(outcome: ExecutionOutcome | None) -> None:
            if outcome is None:
                return
            error = self._bounded("error", outcome.error_type) if outcome.error_type is not None else ""
            self._ended.labels(agent, outcome.status, outcome.outcome).inc()
            self._lasted.labels(agent).observe(outcome.seconds)
            (self._chains if about.is_chain else self._agents).labels(agent, error).observe(outcome.seconds)
            if outcome.reason in REASONS.values():
                self._exhausted.inc()

        return end

    def model_call(self, about: ObservedModelCall) -> Callable[[ModelCallOutcome], None]:
        """Count a model call at its end; a cancelled one too, as it took its time."""
        request = about.request
        model = self._bounded("model", request.spec.model)
        labels = (names.CHAT, REHEARSAL if about.rehearses else request.spec.provider, model)

        def end(outcome: ModelCallOutcome) -> None:
            failure = outcome.error
            error = "" if failure is None else failure.kind if isinstance(failure, ModelError) else names.OTHER
            self._inference.labels(*labels, error).observe(outcome.seconds)
            reply = outcome.reply
            if reply is None:
                return
            usage = reply.usage
            whole = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
            counts = (whole, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
            for name, count in zip(TOKENS, counts, strict=True):
                self._tokens[name].labels(*labels).inc(count)
            if outcome.cost is not None:
                agent, answered = self._bounded("agent", request.agent), self._bounded("model", reply.model)
                self._cost.labels(agent, answered).inc(outcome.cost.usd)

        return end

    def tool_call(self, about: ObservedToolCall) -> Callable[[ToolCallOutcome], None]:
        """Count a tool call at its end."""
        known = about.tool
        server = self._bounded("server", known.server) if known is not None else ""
        tool = self._bounded("tool", known.label) if known is not None else REST

        def end(outcome: ToolCallOutcome) -> None:
            result = outcome.result
            failed = result.error_type or names.OTHER if result is not None and result.is_error else ""
            error = self._bounded("error", failed) if failed else ""
            told = "cancelled" if result is None else error or "completed"
            self._tools.labels(server, tool, told).inc()
            self._tool_seconds.labels(tool, error).observe(outcome.seconds)
            if about.transport is not None:
                self._upstream.labels(names.TOOLS_CALL, tool, error).observe(outcome.seconds)

        return end

    def request(self, about: ObservedRequest) -> Callable[[RequestOutcome], None]:
        """Time a request of an MCP client."""

        def end(outcome: RequestOutcome) -> None:
            self._requests.labels(about.method, about.target or "", outcome.error_type or "").observe(outcome.seconds)

        return end

    def close(self) -> None:
        """There is nothing to send."""

    # -- instruments ---------------------------------------------------------------------------------------------------

    def _bounded(self, label: str, value: str) -> str:
        known = self._values[label]
        if value in known:
            return value
        if len(known) >= MOST_VALUES:
            return REST
        known.add(value)
        return value

    def _counter(self, name: str, words: str, labels: Sequence[str]) -> Counter:
        return Counter(in_prometheus(name), words, labels, registry=self.registry)

    def _histogram(self, name: str, words: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        return Histogram(in_prometheus(name), words, labels, buckets=buckets, registry=self.registry)

    def _seconds(self, name: str, words: str, labels: Sequence[str], buckets: Sequence[float]) -> Histogram:
        return self._histogram(f"{name}.seconds", words, labels, buckets)


async def exposition(dispatcher: Dispatcher) -> bytes:
    """What Prometheus reads: the counters of this process, and its gauges as they are now."""
    counted = next((each for each in _observers(dispatcher) if isinstance(each, Metrics)), None)
    text = generate_latest(await _gauges(dispatcher))
    return text if counted is None else generate_latest(counted.registry) + text


def _observers(dispatcher: Dispatcher) -> Sequence[object]:
    observers = dispatcher.services.observers
    return observers.each if observers is not None else ()


async def _gauges(dispatcher: Dispatcher) -> CollectorRegistry:
    registry, live = CollectorRegistry(), list(dispatcher.tree)
    settings = dispatcher.services.settings
    running = Tally(each.request.agent.name for each in live if each.status is ExecutionStatus.RUNNING)
    running.update(dict.fromkeys((*settings.agents, *settings.chains), 0))
    waiting = await dispatcher.approvals.open()
    _gauge(registry, names.EXECUTIONS_RUNNING, "Running executions", "agent", running)
    queued = sum(each.slot.queue_position > 0 for each in live)
    _gauge(registry, names.QUEUE_DEPTH, "Executions that wait for a slot", None, queued)
    _gauge(registry, names.APPROVALS_WAITING, "Open questions to people", None, len(waiting))
    up = {name: int(is_up) for name, is_up in dispatcher.services.upstreams.up.items()}
    _gauge(registry, names.UPSTREAM_UP, "Whether a server that was used is connected", "server", up)
    _gauge(registry, names.BUILD_INFO, "The running version", "version", {version("outrider"): 1})
    return registry


def _gauge(registry: CollectorRegistry, name: str, words: str, label: str | None, values: Mapping[str, int] | int) -> None:
    gauge = Gauge(in_prometheus(name), words, () if label is None else (label,), registry=registry)
    if isinstance(values, int):
        gauge.set(values)
    else:
        for value, number in values.items():
            gauge.labels(value).set(number)
