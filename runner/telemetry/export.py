"""Export: spans are sent over OTLP/HTTP by a thread of their own.

Owns the provider, the exporter and their end. The provider is never the global one: the SDK of MCP would add spans of its
own to ours. The variables `OTEL_*` of this process apply as the SDK reads them. Invariant: a receiver that is slow or away
costs an execution nothing: spans wait in a bounded queue, what does not fit is dropped, and the end waits `FLUSH_SECONDS`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from runner.telemetry.content import SpanContent
from runner.telemetry.spans import ExecutionIds, Spans

FLUSH_SECONDS = 2.0
"""The longest wait for spans that were not sent yet, at the end of a process."""

SDK_LOGGERS = ("opentelemetry.exporter", "opentelemetry.sdk")
"""Loggers that repeat each failure of a receiver with its traceback; one line of ours says it."""

log = logging.getLogger("outrider.telemetry")


class _TellingExporter(SpanExporter):
    """Sends spans, and logs once when that begins to fail and once when it works again."""

    def __init__(self, exporter: SpanExporter, endpoint: str) -> None:
        self._exporter, self._endpoint, self._failing = exporter, endpoint, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        failing = result is not SpanExportResult.SUCCESS
        if failing and not self._failing:
            log.warning("traces cannot be sent to %s; executions are not affected", self._endpoint)
        elif self._failing and not failing:
            log.warning("traces are sent to %s again", self._endpoint)
        self._failing = failing
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def exported_spans(endpoint: str, content: SpanContent | None) -> Spans:
    """Spans that are sent to the address of a receiver's traces."""
    for name in SDK_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    ids = ExecutionIds()
    ours = Resource({SERVICE_NAME: "outrider", SERVICE_VERSION: version("outrider")})
    resource = Resource.create().merge(ours).merge(OTELResourceDetector().detect())  # what the environment says wins
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_TellingExporter(OTLPSpanExporter(endpoint), endpoint)))
    return Spans(provider, ids, content, _bounded(provider.shutdown))


def _bounded(shutdown: Callable[[], None]) -> Callable[[], None]:
    """The same, in a daemon thread that is waited for a limited time: a process never waits longer to end."""

    def flush() -> None:
        thread = threading.Thread(target=shutdown, name="send the last spans", daemon=True)
        thread.start()
        thread.join(FLUSH_SECONDS)
        if thread.is_alive():
            log.warning("the last traces were not sent within %g s", FLUSH_SECONDS)

    return flush
