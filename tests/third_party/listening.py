"""Programs that listen on loopback: started, awaited, stopped.

Owns: a Prometheus that scrapes what the test serves, and any server that says in its log when it is ready.
Must not know: Outrider.
Invariant: whoever waits, waits for a line or a request, never for time to pass.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.support.served_shell import free_port
from tests.third_party.place import installed

METRICS = b"# TYPE checkout_errors_total counter\ncheckout_errors_total 42\n"
HEADERS = b"Content-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\nConnection: close" % len(METRICS)
ANSWER = b"HTTP/1.1 200 OK\r\n" + HEADERS + b"\r\n\r\n" + METRICS
READY_SECONDS = 30


@asynccontextmanager
async def listening(command: Sequence[str], env: Mapping[str, str], ready: bytes) -> AsyncIterator[str]:
    """Run a program from the moment its log says that it is ready; the line that says so."""
    async with await anyio.open_process(command, env=dict(env), stdin=None, stdout=None) as process:
        assert process.stderr is not None
        log = BufferedByteReceiveStream(process.stderr)
        try:
            line = await _until(ready, log)
            async with anyio.create_task_group() as reading:
                reading.start_soon(_read_on, log)
                yield line
                reading.cancel_scope.cancel()
        finally:
            with suppress(ProcessLookupError):
                process.kill()


async def _until(ready: bytes, log: BufferedByteReceiveStream) -> str:
    """The line with these words; without it the test fails and shows what was said instead."""
    said: list[bytes] = []
    try:
        with anyio.fail_after(READY_SECONDS):
            while not said or ready not in said[-1]:
                said.append(await log.receive_until(b"\n", 100_000))
    except (anyio.IncompleteRead, TimeoutError):
        pytest.fail(b"\n".join([b"the program did not become ready", *said, log.buffer]).decode(), pytrace=False)
    return said[-1].decode()


async def _read_on(log: BufferedByteReceiveStream) -> None:
    """A log nobody reads would stop the program."""
    async for _ in log:
        pass


@dataclass(frozen=True)
class Prometheus:
    """Where it answers, and whether what it scraped can be asked for."""

    url: str
    scraped: anyio.Event


@asynccontextmanager
async def prometheus(folder: Path) -> AsyncIterator[Prometheus]:
    """A real Prometheus with its own data, that scrapes the metrics of this test."""
    scraped = anyio.Event()
    scrapes = 0

    async def answer(stream: SocketStream) -> None:
        nonlocal scrapes
        # Prometheus may be stopped while it scrapes.
        with suppress(anyio.IncompleteRead, anyio.BrokenResourceError):
            async with stream:
                await BufferedByteReceiveStream(stream).receive_until(b"\r\n\r\n", 100_000)
                scrapes += 1
                if scrapes > 1:
                    scraped.set()  # the one before is stored: a target is scraped by one loop, step by step
                await stream.send(ANSWER)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as target, anyio.create_task_group() as tasks:
        tasks.start_soon(target.serve, answer)
        address = f"127.0.0.1:{free_port()}"
        command = _command(folder, address, target.extra(SocketAttribute.local_port))
        async with listening(command, {}, b"is ready"):
            yield Prometheus(f"http://{address}", scraped)
        tasks.cancel_scope.cancel()


def _command(folder: Path, address: str, target: int) -> list[str]:
    job = {"job_name": "checkout", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}
    pace = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
    config = folder / "prometheus.yml"
    config.write_text(json.dumps({"global": pace, "scrape_configs": [job]}), encoding="utf-8")
    options = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'prometheus'}", f"--web.listen-address={address}"]
    return [*installed("bin/prometheus"), *options]
