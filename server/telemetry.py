"""Telemetry of a service: whether traces are sent, and who observes its executions.

Owns that decision, from the configuration and the variables `OTEL_*`. Must not know: spans, metrics. Invariant: nothing of
OpenTelemetry's SDK is imported unless traces are sent, and what the configuration asks for is either done or refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from runner.errors import RunnerError

if TYPE_CHECKING:
    from runner.telemetry.observer import Observer, Observers
    from server.blueprint import Blueprint

log = logging.getLogger("outrider.telemetry")

DISABLED, EXPORTER = "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER"
ENDPOINT, TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
PATH, USUAL = "v1/traces", "http://localhost:4318"
NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
INSTALL = "install outrider[otel]"
REPAIR = "correct or remove the variables `OTEL_*` of this process"


class NoTelemetry(RunnerError):
    """Traces are asked for, and cannot be sent."""


def observers_of(blueprint: Blueprint, more: Sequence[Observer] = ()) -> Observers | None:
    """The observers of a service: the traces, if any are sent, and `more`; None without any. Raises NoTelemetry."""
    if blueprint.observers is not None:
        return blueprint.observers
    try:
        every = [*more, *_spans(blueprint)]
    except NoTelemetry as error:
        wish = blueprint.settings.telemetry
        if wish.enabled or wish.endpoint is not None:
            raise
        # A variable of the whole machine: other programs mean it too, so it must not stop this one.
        log.warning("%s; hint: %s", error, error.hint)
        every = list(more)
    if not every:
        return None
    from runner.telemetry.observer import Observers

    return Observers(every)


def _spans(blueprint: Blueprint) -> list[Observer]:
    """What sends traces, if any are sent; raises NoTelemetry."""
    address = traces_address(blueprint)
    if address is None:
        return []
    if not is_installed():
        raise NoTelemetry("no traces are sent: OpenTelemetry is not installed", INSTALL)
    from runner.telemetry.content import SpanContent
    from runner.telemetry.export import exported_spans
    from runner.tools.secrets import Mask

    settings = blueprint.settings
    content = SpanContent(Mask(settings.secrets(blueprint.environ)).text) if settings.telemetry.content else None
    try:
        return [exported_spans(address, content)]
    except Exception as error:  # the SDK reads the variables `OTEL_*`, and refuses some values
        why = str(error).rstrip(".")
        raise NoTelemetry(f"no traces are sent: OpenTelemetry refuses its settings: {why}", REPAIR) from error


def traces_address(blueprint: Blueprint) -> str | None:
    """The address that traces are sent to; None if none are sent."""
    wish, environ = blueprint.settings.telemetry, blueprint.environ
    if wish.enabled is False or _says(environ, DISABLED, "true") or _says(environ, EXPORTER, "none"):
        return None
    if wish.endpoint is None and (exact := environ.get(TRACES_ENDPOINT)):
        return exact
    base = wish.endpoint or environ.get(ENDPOINT) or (USUAL if wish.enabled else None)
    return f"{base.rstrip('/')}/{PATH}" if base else None


def _says(environ: Mapping[str, str], variable: str, value: str) -> bool:
    return environ.get(variable, "").strip().lower() == value


def is_installed() -> bool:
    """Whether the packages are there that send traces."""
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # a parent package is missing
        return False
