"""One run inside a contestant's process: its command line, its clock, and the report it prints as one line of JSON.

Owns: the measurements from the inside. Must not know: which contestant it is. Invariant: wall and CPU seconds cover only
the work, after everything is imported and built.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskStatus

from bench.contest import CANCELLED, Contest, Entrant, Options

SETTLING_SECONDS = 2.0
"""After a cancellation: the time for tasks to end before they count as leaked."""

Report = dict[str, Any]


def cpu_seconds() -> float:
    """CPU of this process and of its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def stored(database: Path) -> tuple[int, int]:
    """The number of rows in the contestant's SQLite file, and the bytes of their values."""
    if not database.exists():
        return 0, 0

    rows = size = 0
    with closing(sqlite3.connect(database)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [column for _, column, *_ in connection.execute(f'PRAGMA table_info("{table}")')]
            lengths = " + ".join(f'coalesce(length(cast("{column}" AS BLOB)), 0)' for column in columns)
            count, total = connection.execute(f'SELECT count(*), coalesce(sum({lengths}), 0) FROM "{table}"').fetchone()
            rows, size = rows + count, size + total
    return rows, size


@dataclass
class Work:
    """The running work: its final text, and the moment of its cancellation."""

    entrant: Entrant
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    final: str = CANCELLED
    cancelled_at: float | None = None

    async def run(self) -> None:
        """Do the work; an exception becomes the final text."""
        with self.scope:
            try:
                self.final = await self.entrant.run()
            except Exception as error:
                self.final = f"FAILED {type(error).__name__}: {error}"[:500]

    async def cancel_on_signal(self, *, task_status: TaskStatus[None]) -> None:
        """Wait for SIGUSR1, then cancel the work."""
        with anyio.open_signal_receiver(signal.SIGUSR1) as signals:
            task_status.started()
            async for _ in signals:
                break
            self.cancelled_at = time.time()
            if self.entrant.cancel is None:
                self.scope.cancel("the benchmark cancels")
            else:
                await self.entrant.cancel()


async def measure(contest: Contest, options: Options, cancel: bool) -> Report:
    """Build the contestant, do the work once, and report."""
    report: Report = {}
    async with contest(options) as entrant, anyio.create_task_group() as tasks:
        report["ready_at"] = time.time()
        work = Work(entrant)
        if entrant.warm is not None:
            await entrant.warm()
        before = len(anyio.get_running_tasks())
        if cancel:
            await tasks.start(work.cancel_on_signal)

        wall, cpu = time.perf_counter(), cpu_seconds()
        await work.run()
        report["wall_s"] = round(time.perf_counter() - wall, 4)
        report["cpu_s"] = round(cpu_seconds() - cpu, 4)

        if work.cancelled_at is not None:
            report |= await _aftermath(work.cancelled_at, before)
        tasks.cancel_scope.cancel("measured")
        report["max_rss_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
        report["final"], report["ok"] = work.final, options.answer in work.final

    report["cpu_total_s"] = round(cpu_seconds(), 4)
    report["rows"], report["bytes"] = stored(options.database)
    return report


async def _aftermath(cancelled_at: float, tasks_before: int) -> Report:
    """The tasks left at once and after a while; the harness meanwhile checks the fake model."""
    report: Report = {"cancel_at": cancelled_at, "cancel_s": round(time.time() - cancelled_at, 4)}
    report["tasks_left"] = len(anyio.get_running_tasks()) - tasks_before
    report["threads_left"] = threading.active_count() - 1
    print(json.dumps({"event": "cancelled"}), flush=True)
    await anyio.sleep(SETTLING_SECONDS)
    report["tasks_left_later"] = len(anyio.get_running_tasks()) - tasks_before
    return report


def main(contest: Contest, variants: Sequence[str] = ("default",)) -> None:
    """The command line of a contestant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fanout", type=int, default=50)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--tool", choices=("inproc", "mcp"), default="inproc")
    parser.add_argument("--variant", choices=variants, default=variants[0])
    parser.add_argument("--cancel", action="store_true", help="cancel the supervisor on SIGUSR1, and time it")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        options = Options(
            fanout=arguments.fanout,
            turns=arguments.turns,
            base_url=arguments.base_url,
            tool=arguments.tool,
            variant=arguments.variant,
            database=Path(folder, "bench.sqlite"),
        )
        print(json.dumps(anyio.run(measure, contest, options, arguments.cancel)), flush=True)

    sys.stdout.flush()
    os._exit(0)  # exit handlers are not measured
