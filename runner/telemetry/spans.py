"""Spans: what observers are told, as spans of OpenTelemetry.

Owns their nesting. The span of an execution is a child of its parent's, so that nesting equals `parent_execution_id`; a
dispatched one is linked to the tool call that dispatched it, which ends earlier. Its span id, and the trace id of a root
without a caller's, are derived from its own id. A process that takes a tree over thus ends the very span that its children
already name as their parent; a process that stops without an end sends none. Must not know: where spans are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from opentelemetry import context as current
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags, TraceState
from opentelemetry.trace.propagation import set_span_in_context

from db.ids import made_at
from runner.llm.protocol import ModelError
from runner.messages import Message
from runner.telemetry import names
from runner.telemetry.content import SpanContent
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

SHOWN_NAME = 100
"""Characters of a tool's name that a model invented."""
REHEARSAL = "outrider.rehearsal"
"""The provider of a rehearsed call."""


class ExecutionIds(RandomIdGenerator):
    """Random ids, but for the spans of executions: theirs are derived."""

    def __init__(self) -> None:
        self._derived: tuple[str, str] | None = None

    def next_for(self, execution: str, root: str) -> None:
        """Derive the ids of the next span."""
        self._derived = execution, root

    def generate_trace_id(self) -> int:
        return trace_id_of(self._derived[1]) if self._derived is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        derived, self._derived = self._derived, None
        return span_id_of(derived[0]) if derived is not None else super().generate_span_id()


def trace_id_of(root: str) -> int:
    """The id of the trace of a tree without a caller's trace."""
    return int.from_bytes(blake2b(root.encode(), digest_size=16, person=b"trace").digest())


def span_id_of(execution: str) -> int:
    """The id of the span of an execution."""
    return int.from_bytes(blake2b(execution.encode(), digest_size=8, person=b"span").digest())


@dataclass(slots=True)
class _OpenExecution:
    """An execution that runs here."""

    span: Span
    baggage: str | None
    whole: bool
    """Whether it began here, so that its tokens are known."""
    input_tokens: int = 0
    output_tokens: int = 0


class Spans:
    """An observer that makes spans."""

    def __init__(
        self, provider: TracerProvider, ids: ExecutionIds, content: SpanContent | None, flush: Callable[[], None]
    ) -> None:
        self._tracer = provider.get_tracer("outrider", schema_url=names.SCHEMA)
        self._ids, self._content, self._flush = ids, content, flush
        self._open: dict[str, _OpenExecution] = {}

    def close(self) -> None:
        """Send what is left, in a bounded time."""
        self._flush()

    # -- executions ----------------------------------------------------------------------------------------------------

    def execution(self, about: ObservedExecution) -> Callable[[ExecutionOutcome | None], None]:
        """A span from the spawn to the end of an execution."""
        place, operation = about.place, names.INVOKE_WORKFLOW if about.is_chain else names.INVOKE_AGENT
        above = self._open.get(place.parent_execution_id or "")
        self._ids.next_for(place.id, place.root_execution_id)
        span = self._tracer.start_span(
            f"{operation} {about.name}",
            context=set_span_in_context(above.span) if above is not None else _within(about.trace),
            attributes=_given(_of_execution(about, operation)),
            links=[Link(caller) for caller in [_remote(about.dispatched or {})] if caller is not None],
            start_time=_nanoseconds(made_at(place.id)),
        )
        opened = _OpenExecution(span, about.trace.get("baggage"), whole=about.attempt == 1)
        self._open[place.id] = opened

        def end(outcome: ExecutionOutcome | None) -> None:
            if self._open.get(place.id) is opened:
                del self._open[place.id]
            if outcome is None:
                return  # the process that continues it sends this span
            if opened.whole and not about.is_chain:
                span.set_attribute(names.INPUT_TOKENS, opened.input_tokens)
                span.set_attribute(names.OUTPUT_TOKENS, opened.output_tokens)
            told = {names.STATUS: outcome.status, names.OUTCOME: outcome.outcome, names.REASON: outcome.reason}
            span.set_attributes(_given({**told, names.COST: outcome.cost_usd}))
            if outcome.error_type is not None:
                _failed(span, outcome.error_type)
            span.end()

        return end

    def _above(self, execution: str) -> Context:
        opened = self._open.get(execution)
        return set_span_in_context(opened.span) if opened is not None else Context()

    # -- models --------------------------------------------------------------------------------------------------------

    def model_call(self, about: ObservedModelCall) -> Callable[[ModelCallOutcome], None]:
        """A span over all attempts of a call."""
        request = about.request
        provider = REHEARSAL if about.rehearses else request.spec.provider
        told: dict[str, Any] = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: provider,
            names.REQUEST_MODEL: request.spec.model,
            names.AGENT: request.agent,
            names.REQUEST_MAX_TOKENS: request.max_tokens or request.spec.max_tokens,
            names.REQUEST_STREAM: True,
            names.EXECUTION: request.execution_id,
        }
        name = f"{names.CHAT} {request.spec.model}"
        span = self._tracer.start_span(name, self._above(request.execution_id), SpanKind.CLIENT, told)
        if self._content is not None and span.is_recording():
            span.set_attribute(names.SYSTEM_INSTRUCTIONS, self._content.instructions(request.system))
            span.set_attribute(names.INPUT_MESSAGES, self._content.messages(request.messages))

        def end(outcome: ModelCallOutcome) -> None:
            if outcome.reply is not None:
                self._replied(span, request.execution_id, outcome)
            elif outcome.error is None:
                span.set_attribute(names.CANCELLED, True)
            else:
                _failed(span, outcome.error.kind if isinstance(outcome.error, ModelError) else names.OTHER)
            span.end()

        return end

    def _replied(self, span: Span, execution: str, outcome: ModelCallOutcome) -> None:
        reply = outcome.reply
        assert reply is not None
        usage = reply.usage
        whole = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        if (opened := self._open.get(execution)) is not None:
            opened.input_tokens += whole
            opened.output_tokens += usage.output_tokens
        told = {
            names.RESPONSE_MODEL: reply.model,
            names.RESPONSE_FINISH_REASONS: [reply.stop_reason],
            names.RESPONSE_FIRST_CHUNK: outcome.first_chunk,
            names.INPUT_TOKENS: whole,
            names.OUTPUT_TOKENS: usage.output_tokens,
            names.CACHE_READ_TOKENS: usage.cache_read_tokens or None,
            names.CACHE_WRITE_TOKENS: usage.cache_write_tokens or None,
            names.COST: outcome.cost.usd if outcome.cost is not None else None,
            names.REHEARSED: reply.rehearsed or None,
        }
        span.set_attributes(_given(told))
        if self._content is not None and span.is_recording():
            answer = Message("assistant", reply.content)
            span.set_attribute(names.OUTPUT_MESSAGES, self._content.messages([answer], reply.stop_reason))

    # -- tools ---------------------------------------------------------------------------------------------------------

    def tool_call(self, about: ObservedToolCall) -> Callable[[ToolCallOutcome], None]:
        """A span that is also that of the request to an MCP server; the server gets its context."""
        call, opened = about.call, self._open.get(about.execution_id)
        shown = f" {about.tool.label}" if about.tool is not None else ""
        name = f"{names.EXECUTE_TOOL}{shown}{f' {about.target}' if about.target is not None else ''}"
        span = self._tracer.start_span(name, self._above(about.execution_id), attributes=_given(_of_call(about)))
        if self._content is not None and span.is_recording():
            span.set_attribute(names.TOOL_ARGUMENTS, self._content.data(call.malformed or dict(call.arguments)))
        call.flight.trace = _carried(span.get_span_context(), opened.baggage if opened is not None else None)
        # The SDK of MCP sends the current context, which is the caller's until here.
        token = current.attach(set_span_in_context(span))

        def end(outcome: ToolCallOutcome) -> None:
            current.detach(token)
            result = outcome.result
            if call.flight.protocol is not None:
                span.set_attribute(names.MCP_PROTOCOL, call.flight.protocol)
            if result is None:
                span.set_attribute(names.CANCELLED, True)
            elif result.is_error:
                _failed(span, result.error_type or names.OTHER)
            if result is not None and self._content is not None and span.is_recording():
                span.set_attribute(names.TOOL_RESULT, self._content.text(result.text))
            span.end()

        return end

    # -- requests of MCP clients ---------------------------------------------------------------------------------------

    def request(self, about: ObservedRequest) -> Callable[[RequestOutcome], None]:
        """A span within the client's context; what the request starts is within this span."""
        is_call = about.method == names.TOOLS_CALL
        told = {
            names.MCP_METHOD: about.method,
            names.OPERATION: names.EXECUTE_TOOL if is_call else None,
            names.TOOL: about.target,
            names.REQUEST_ID: about.id,
            names.MCP_PROTOCOL: about.protocol,
            names.MCP_SESSION: about.session,
            names.TRANSPORT: about.transport,
        }
        name = f"{about.method} {about.target}" if about.target is not None else about.method
        span = self._tracer.start_span(name, _within(about.meta), SpanKind.SERVER, _given(told))
        about.carried.update(_carried(span.get_span_context(), about.meta.get("baggage")))

        def end(outcome: RequestOutcome) -> None:
            if outcome.code is not None:
                span.set_attribute(names.RESPONSE_STATUS, str(outcome.code))
            if outcome.error_type is not None:
                _failed(span, outcome.error_type)
            span.end()

        return end


def _of_execution(about: ObservedExecution, operation: str) -> dict[str, Any]:
    place = about.place
    return {
        names.OPERATION: operation,
        names.PROVIDER: None if about.is_chain else about.provider,
        names.WORKFLOW if about.is_chain else names.AGENT: about.name,
        names.AGENT_DESCRIPTION: None if about.is_chain else about.description or None,
        names.REQUEST_MODEL: about.model,
        names.CONVERSATION: place.root_execution_id,
        names.EXECUTION: place.id,
        names.PARENT: place.parent_execution_id,
        names.ROLE: about.role,
        names.ATTEMPT: about.attempt,
    }


def _of_call(about: ObservedToolCall) -> dict[str, Any]:
    call, tool, is_mcp = about.call, about.tool, about.transport is not None
    return {
        names.OPERATION: names.EXECUTE_TOOL,
        names.TOOL: tool.label if tool is not None else call.name[:SHOWN_NAME],
        names.TOOL_CALL_ID: call.id,
        names.TOOL_TYPE: names.EXTENSION if is_mcp else names.FUNCTION,
        names.AGENT: about.agent,
        names.TRANSFER_TARGET: about.target,
        names.TRANSFER_MODE: names.RETURN_TO_CALLER if about.target is not None else None,
        names.MCP_METHOD: names.TOOLS_CALL if is_mcp else None,
        names.TRANSPORT: about.transport,
        names.SERVER: tool.server if tool is not None else None,
        names.EXECUTION: about.execution_id,
    }


def _given(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _failed(span: Span, kind: str) -> None:
    """The type alone: the text of an error may be content."""
    span.set_attribute(names.ERROR, kind)
    span.set_status(StatusCode.ERROR)


def _nanoseconds(moment: datetime) -> int:
    return int((moment - datetime.fromtimestamp(0, UTC)).total_seconds() * 1_000_000) * 1_000


def _remote(trace: Mapping[str, Any]) -> SpanContext | None:
    """The span that a checked trace context names."""
    parent = trace.get("traceparent")
    if not isinstance(parent, str):
        return None
    _, trace_id, span_id, flags = parent.split("-")[:4]
    state = TraceState.from_header([str(trace.get("tracestate", ""))])
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)), trace_state=state
    )


def _within(trace: Mapping[str, Any]) -> Context:
    caller = _remote(trace)
    return set_span_in_context(NonRecordingSpan(caller), Context()) if caller is not None else Context()


def _carried(span: SpanContext, baggage: str | None) -> dict[str, str]:
    """The context of a span, as it is sent on."""
    sent = {"traceparent": f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"}
    if span.trace_state:
        sent["tracestate"] = span.trace_state.to_header()
    return sent if baggage is None else {**sent, "baggage": baggage}
