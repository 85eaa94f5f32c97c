"""What the service itself costs where callers and models wait: `python -m bench.latencies [WHAT …] [--n N] [--rounds N]`.

Owns the command line and the choice of measurements. Must not know: how one is made. Invariant: every figure is that of a
real service with its own SQLite file and a fake model in another process, on this machine alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from bench.checks import cost_table, of_pure_checks, of_tool_calls
from bench.dispatches import in_process, over_stdio
from bench.notes import to_a_waiting_agent, to_a_working_agent
from bench.service import series_table
from bench.siblings import SIBLINGS, sharing, sharing_table

AT_ONCE = (1, 5, SIBLINGS)
"""Numbers of siblings at work at the same time."""


@dataclass(frozen=True, slots=True)
class Size:
    """How often something is measured."""

    dispatches: int
    messages: int
    rounds: int


def dispatches(size: Size) -> str:
    """From a dispatch to the id of a stored execution."""
    measured = [*anyio.run(in_process, size.dispatches), *over_stdio(size.dispatches)]
    return series_table("dispatch → id of a stored execution", measured)


def messages(size: Size) -> str:
    """From a message to the model request that contains it."""
    measured = [*anyio.run(to_a_waiting_agent, size.messages), *anyio.run(to_a_working_agent, size.messages)]
    return series_table("message", measured)


def checks(size: Size) -> str:
    """The CPU of gates and guard where they refuse nothing."""
    return cost_table([*anyio.run(of_tool_calls, size.rounds), *of_pure_checks(size.rounds)])


def cache(_: Size) -> str:
    """What siblings read from the prompt cache."""
    return sharing_table([anyio.run(sharing, at_once) for at_once in AT_ONCE])


MEASUREMENTS: dict[str, Callable[[Size], str]] = {
    measure.__name__: measure for measure in (dispatches, messages, checks, cache)
}


def main(words: Sequence[str]) -> None:
    """Measure, and print a table for each measurement."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.latencies",
        description="measure what the service itself costs where callers and models wait",
        epilog="\n".join(f"  {name:11} {measure.__doc__}" for name, measure in MEASUREMENTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("measurements", nargs="*", metavar="WHAT", help="default: all")
    parser.add_argument("--n", type=int, default=500, help="dispatches of each kind (default: 500)")
    parser.add_argument("--messages", type=int, default=200, help="messages to each agent (default: 200)")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of checks (default: 25)")
    arguments = parser.parse_args(words)
    if unknown := [name for name in arguments.measurements if name not in MEASUREMENTS]:
        parser.error(f"no measurement named `{unknown[0]}`\nhint: use one of {', '.join(MEASUREMENTS)}")
    if arguments.n < 2 or arguments.messages < 2 or arguments.rounds < 1:
        parser.error("`--n` and `--messages` must be at least 2, `--rounds` at least 1")

    size = Size(arguments.n, arguments.messages, arguments.rounds)
    for name in arguments.measurements or MEASUREMENTS:
        print(f"{name} …", file=sys.stderr, flush=True)
        print(MEASUREMENTS[name](size) + "\n", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
