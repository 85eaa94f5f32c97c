"""An OTLP/HTTP receiver as a program: decodes the spans it is sent and appends each to a file, as a line of JSON.

Owns the decoding. Must not know: a test's expectations. Invariant: a request is answered after its spans are in the file.
With `slow` it never answers, as a receiver that hangs.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT"}
ERROR = 2


def plain(value: AnyValue) -> Any:
    """A value as JSON."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [plain(each) for each in value.array_value.values]
    return getattr(value, kind) if kind is not None else None


def attributes(pairs: list[KeyValue]) -> dict[str, Any]:
    """Attributes as JSON."""
    return {pair.key: plain(pair.value) for pair in pairs}


def told(span: Span, resource: dict[str, Any], schema: str) -> dict[str, Any]:
    """A span as JSON."""
    return {
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "state": span.trace_state,
        "name": span.name,
        "kind": KINDS[span.kind],
        "start": span.start_time_unix_nano,
        "end": span.end_time_unix_nano,
        "attributes": attributes(list(span.attributes)),
        "links": [{"trace": link.trace_id.hex(), "id": link.span_id.hex()} for link in span.links],
        "failed": span.status.code == ERROR,
        "message": span.status.message,
        "resource": resource,
        "schema": schema,
    }


def spans_in(body: bytes) -> list[dict[str, Any]]:
    """The spans of a request."""
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    return [
        told(span, attributes(list(each.resource.attributes)), scope.schema_url)
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    ]


def main(file: Path, *, slow: bool) -> None:
    """Serve on a free port, which is the first line of the output; each request adds a line."""
    writing = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if slow:
                threading.Event().wait()
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            lines = [json.dumps({**span, "path": self.path}) + "\n" for span in spans_in(body)]
            with writing, file.open("a", encoding="utf-8") as stream:
                stream.writelines(lines)
                stream.flush()
                print(len(lines), flush=True)  # noqa: T201 - its output tells of each request
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - as it is named there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)  # noqa: T201 - its output is the port
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), slow="slow" in sys.argv[2:])
