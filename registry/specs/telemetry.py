"""The `telemetry` section: whether traces are sent, and where to.

Owns: the shape of the section and TelemetrySpec. Must not know: how a trace is sent.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from registry.specs.models import web_address
from registry.text.entry import Entry, Flag, Line


class TelemetryEntry(Entry):
    """The `telemetry` section as written."""

    enabled: Flag | None = Field(
        default=None, description="whether traces are sent; absent: if there is an `endpoint`, here or in `OTEL_*`"
    )
    endpoint: Annotated[Line, AfterValidator(web_address)] | None = Field(
        default=None,
        description="OTLP/HTTP receiver, as `http://localhost:4318`; absent: `OTEL_EXPORTER_OTLP_ENDPOINT`",
    )
    content: Flag = Field(
        default=False, description="send prompts, answers, arguments and results too, with secrets masked"
    )


@dataclass(frozen=True, slots=True)
class TelemetrySpec:
    """Whether traces are sent (None: if there is an endpoint), where to, and whether with content."""

    enabled: bool | None = None
    endpoint: str | None = None
    content: bool = False


def telemetry_spec(entry: TelemetryEntry) -> TelemetrySpec:
    """Return the spec of a checked section."""
    return TelemetrySpec(entry.enabled, entry.endpoint, entry.content)
