"""The command line of the big database: `python -m bench.big [--executions N] [--seed S] [--keep FILE]`.

Owns the order of the work: fill, ask, print. Must not know: what is asked. Invariant: a figure is printed with the plan of
the statements behind it, and figures of one run are of one database.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from bench.big.filling import fill
from bench.big.page_requests import REQUESTS
from bench.big.population import Population
from bench.big.questions import QUESTIONS, Draws, Question
from bench.big.serving import served
from bench.big.watch import Figure, plan_of, watched
from bench.measure import cpu_seconds
from bench.record import revision
from db.errors import DatabaseUnavailable, QueryRefused
from db.rows.reads import Reads
from db.store.engine import sqlite_library
from db.store.owners import Ownership

EVERY = {**QUESTIONS, **REQUESTS}


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.big", description="measure what the faces ask of a big database, with the plan of each query"
    )
    parser.add_argument("--executions", type=int, default=1_000_000, metavar="N", help="default: 1,000,000")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the same seed makes the same trees (default: 1)")
    parser.add_argument("--open", type=int, default=0, metavar="N", help="open trees (default: one for 5,000 executions)")
    parser.add_argument("--keep", type=Path, default=None, metavar="FILE", help="keep the database, or ask a kept one")
    parser.add_argument("--draws", type=int, default=100, metavar="N", help="random draws of each question (default: 100)")
    parser.add_argument("--only", default="", metavar="KEY,…", help=f"some of {', '.join(EVERY)}")
    arguments = parser.parse_args(words)
    if unknown := [key for key in arguments.only.split(",") if key and key not in EVERY]:
        parser.error(f"no question named `{unknown[0]}`")
    return arguments


def tell(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def database(arguments: argparse.Namespace) -> Iterator[Path]:
    """The filled database; it is removed at the end unless it is kept."""
    with tempfile.TemporaryDirectory(prefix="bench-big-") as folder:
        path: Path = arguments.keep or Path(folder, "big.db")
        if not path.exists():
            now = time.time_ns() // 1000
            fill(path, Population(arguments.executions, arguments.seed, now, arguments.open), arguments.seed, tell)
        yield path


@contextmanager
def at_work(path: Path) -> Iterator[Any]:
    """A connection, with this process as the living owner of all that is open."""
    ownership = Ownership(path)
    try:
        with closing(sqlite_library().connect(str(path), isolation_level=None)) as connection:
            connection.execute("UPDATE executions SET owner = ? WHERE finished_at IS NULL", (ownership.owner,))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").close()
            yield connection
    finally:
        ownership.close()


async def answered(question: Question, reads: Reads, draws: Draws) -> None:
    """Ask once; a query that takes longer than it may counts as it is."""
    with suppress(QueryRefused, DatabaseUnavailable):
        await question.ask(reads, draws)


async def measure(question: Question, reads: Reads, draws: Draws, connection: Any, rounds: int) -> Figure:
    """Ask a question of many draws."""
    draws.queries.clear()
    with watched() as seen:
        await answered(question, reads, draws)
    plans = [plan_of(connection, each.sql, each.parameters) for each in seen]
    plans += [plan_of(connection, sql) for sql in draws.queries]
    times: list[float] = []
    spent: list[float] = []
    for _ in range(rounds):
        began, used = time.perf_counter(), cpu_seconds()
        await answered(question, reads, draws)
        times.append((time.perf_counter() - began) * 1000)
        spent.append((cpu_seconds() - used) * 1000)
        if sum(times) > 20_000:  # a question that takes seconds needs no hundred draws
            break
    return Figure(times, spent, list(dict.fromkeys(step for plan in plans for step in plan)), len(plans))


async def ask_all(arguments: argparse.Namespace, path: Path, connection: Any) -> Mapping[str, Figure]:
    """Ask every question."""
    figures = {}
    wanted = [key for key in EVERY if not arguments.only or key in arguments.only.split(",")]
    async with AsyncExitStack() as stack:
        reads, draws = Reads(path), Draws(path, connection, arguments.seed)
        stack.push_async_callback(reads.close)
        for key in wanted:
            if key in REQUESTS and draws.http is None:
                draws.http = await stack.enter_async_context(served(path))
            figures[key] = figure = await measure(EVERY[key], reads, draws, connection, arguments.draws)
            tell(f"{key}: {figure.shown}")
    return figures


def table(figures: Mapping[str, Figure]) -> str:
    """The figures as a Markdown table, then the plans."""
    lines = ["| question | ms p50 | ms p95 | CPU ms p50 | CPU ms p95 | statements |", "|---|---|---|---|---|---|"]
    lines += [f"| {EVERY[key].title} | {figure.shown} | {figure.statements} |" for key, figure in figures.items()]
    lines += ["", "Plans:", ""]
    for key, figure in figures.items():
        lines += [f"{EVERY[key].title}", *(f"    {step}" for step in figure.plan)]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """Fill, ask, print."""
    arguments = read_arguments(words)
    with database(arguments) as path, at_work(path) as connection:
        size = path.stat().st_size / 2**30
        counted = connection.execute("SELECT max(rowid) FROM executions").fetchone()[0]
        head = f"{counted:,} executions, {size:.1f} GiB, revision {revision()}, Python {platform.python_version()}, "
        print(f"{head}SQLite {sqlite_library().sqlite_version}\n")
        print(table(anyio.run(ask_all, arguments, path, connection)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
