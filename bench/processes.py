"""The processes of a run: the fake model and one contestant, both on loopback, both ended afterwards.

Owns: starting, querying and ending them. Must not know: what is measured. Invariant: it ends only processes that it
started, by id.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
MEBIBYTE = 2**20


class FakeModelProcess:
    """A running fake model."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = psutil.Process(process.pid)
        self.url: str = json.loads(process.stdout.readline())["url"]

    def stats(self) -> dict[str, Any]:
        """Its counts so far."""
        with urllib.request.urlopen(self.url + "/stats", timeout=30) as reply:
            stats: dict[str, Any] = json.load(reply)
            return stats

    def cpu_seconds(self) -> float:
        """Its own CPU seconds."""
        times = self._process.cpu_times()
        return times.user + times.system


class ContestantProcess:
    """A running contestant; its standard error is kept in case it fails."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdout is not None
        self._process = process
        self._output = process.stdout
        self._log = log

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def report(self, timeout: float) -> dict[str, Any]:
        """Wait for its report, the last line it prints; raises subprocess.TimeoutExpired or ValueError."""
        output, _ = self._process.communicate(timeout=timeout)
        return _parsed(output.strip().splitlines()[-1:])

    def line(self) -> dict[str, Any]:
        """Wait for the next line it prints; raises ValueError when there is none."""
        return _parsed([self._output.readline()])

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def resident_mb(self) -> float:
        """Resident memory of the process and its children."""
        root = psutil.Process(self._process.pid)
        return sum(member.memory_info().rss for member in [root, *root.children(recursive=True)]) / MEBIBYTE

    def complaints(self) -> str:
        """The end of its standard error."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-2000:]


@contextmanager
def fake_model(*arguments: str) -> Iterator[FakeModelProcess]:
    """A fresh fake model."""
    command = [sys.executable, "-m", "bench.fake_llm", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield FakeModelProcess(process)
        finally:
            process.terminate()


@contextmanager
def contestant(command: Sequence[str]) -> Iterator[ContestantProcess]:
    """Start a contestant; at the end, end it and its children."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = Path(folder, "stderr")
        with (
            log.open("w") as errors,
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            try:
                yield ContestantProcess(process, log)
            finally:
                _end(process)


def _parsed(lines: Sequence[str]) -> dict[str, Any]:
    if not lines or not lines[0].startswith("{"):
        raise ValueError("the contestant ended without a report")

    report: dict[str, Any] = json.loads(lines[0])
    return report


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        for member in [*root.children(recursive=True), root]:
            with suppress(psutil.NoSuchProcess):
                member.kill()
