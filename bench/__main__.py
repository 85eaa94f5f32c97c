"""The command line of the benchmark: `python -m bench [SCENARIO …] [--rounds N] [--only NAME,…]`.

Owns: the selection and order of trials. Must not know: how one is run. Invariant: tables on standard output, progress on
standard error; contestants alternate, so that a busy minute of the machine affects all of them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.record import Record, default_path
from bench.roster import CONTESTANTS, Contestant, UnknownContestant, chosen
from bench.scenarios import QUICK, SCENARIOS, Scenario
from bench.tables import table
from bench.trials import attempt


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    lines = [f"  {scenario.key:8} {scenario.title}" for scenario in SCENARIOS.values()]
    names = [f"  {contestant.name}" for contestant in CONTESTANTS]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="measure the cost of Outrider beside bare loops that do the same work",
        epilog="\n".join(["scenarios:", *lines, "", "contestants:", *names]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"default: {' '.join(QUICK)}")
    parser.add_argument("--rounds", type=int, default=3, help="trials of each contestant (default: 3)")
    parser.add_argument("--only", default="", metavar="NAME,…", help="these contestants alone")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds one trial may take (default: 240)")
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="file for the JSON record")
    arguments = parser.parse_args(words)
    if unknown := [key for key in arguments.scenarios if key not in SCENARIOS]:
        parser.error(f"no scenario named `{unknown[0]}`\nhint: use one of {', '.join(SCENARIOS)}")
    if arguments.rounds < 1:
        parser.error("`--rounds` must be at least 1")
    return arguments


def run(scenario: Scenario, contestants: Sequence[Contestant], record: Record, timeout: float) -> bool:
    """Run all rounds of one scenario and print its table; returns whether every trial succeeded."""
    fine = True
    for number in range(record.rounds):
        for contestant in contestants:
            report = attempt(contestant, scenario, timeout)
            record.add(scenario, contestant.name, report)
            fine = fine and report["ok"]
            outcome = "ok" if report["ok"] else f"failed: {report.get('final')}"
            print(f"{scenario.key} {number + 1}/{record.rounds} {contestant.name}: {outcome}", file=sys.stderr, flush=True)

    print(table(scenario, record.results[scenario.key]) + "\n", flush=True)
    return fine


def main(words: Sequence[str]) -> int:
    """Run the benchmark; 1 if a trial failed, 2 if the command line is wrong."""
    arguments = read_arguments(words)
    try:
        contestants = chosen(name for name in arguments.only.split(",") if name)
    except UnknownContestant as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return 2

    record = Record(arguments.out or default_path(), shlex.join(["python", "-m", "bench", *words]), arguments.rounds)
    fine = True
    for key in arguments.scenarios or QUICK:
        scenario = SCENARIOS[key]
        able = [contestant for contestant in contestants if scenario.tool in contestant.tools]
        if able:
            fine = run(scenario, able, record, arguments.timeout) and fine
        else:
            print(f"{key}: no contestant can do this scenario", file=sys.stderr)

    print(f"all reports: {record.path}", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
