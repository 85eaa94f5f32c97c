"""A receiver of traces for tests, and the spans that it was sent.

Owns the process and the questions about its spans. Must not know: what a test expects.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from runner.telemetry import names
from tests.support.sources import ROOT

Sent = dict[str, Any]


@dataclass(frozen=True)
class Receiver:
    """A running receiver."""

    url: str
    file: Path
    news: IO[str]
    """A line for each request."""

    def until(self, condition: Callable[[], bool]) -> None:
        """Read on until a condition, checked after each request, is true."""
        while not condition():
            assert self.news.readline(), "the receiver ended"

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables that make a process send its traces here, soon."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}

    @property
    def spans(self) -> Sequence[Sent]:
        """The spans that came."""
        return (
            [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()] if self.file.exists() else []
        )

    def of(self, operation: str) -> list[Sent]:
        """The spans of an operation."""
        return [span for span in self.spans if span["attributes"].get(names.OPERATION) == operation]

    def named(self, name: str) -> Sent:
        """The one span of that name."""
        (found,) = [span for span in self.spans if span["name"] == name]
        return found

    def executions(self) -> dict[str, Sent]:
        """The spans of executions, by the execution's id."""
        found = [*self.of(names.INVOKE_AGENT), *self.of(names.INVOKE_WORKFLOW)]
        by_id = {span["attributes"][names.EXECUTION]: span for span in found}
        assert len(by_id) == len(found), "an execution has two spans"
        return by_id

    def nesting(self) -> dict[str, str | None]:
        """The parent of each execution, as its span says; None where that is no execution."""
        executions = self.executions()
        by_span = {span["id"]: execution for execution, span in executions.items()}
        return {execution: by_span.get(span["parent"]) for execution, span in executions.items()}


@contextmanager
def receiving(folder: Path, *, slow: bool = False) -> Iterator[Receiver]:
    """Run a receiver."""
    file = folder / "spans.jsonl"
    command = [sys.executable, "-m", "tests.support.otlp_receiver", str(file), *(["slow"] if slow else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            yield Receiver(f"http://127.0.0.1:{port}", file, process.stdout)
        finally:
            process.kill()
