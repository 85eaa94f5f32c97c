"""Tables of reports: one a scenario, medians over the successful rounds.

Owns: columns, medians, ranges and ratios. Must not know: how a report was made. Invariant: a contestant without a
successful round shows the reason instead of a figure, and a time that varies between rounds is shown with its range.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.roster import REFERENCE
from bench.scenarios import Kind, Scenario

Report = Mapping[str, Any]
Results = Mapping[str, Sequence[Report]]
"""The reports of every round, by contestant."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, the figure of one report, and how it is shown."""

    heading: str
    figure: Callable[[Report], float | None]
    digits: int = 2
    ratio: bool = False
    """Whether the figure is divided by that of the reference floor."""
    ranged: bool = False
    """Whether minimum and maximum are shown beside the median: a difference within this range means nothing."""


def _field(name: str) -> Callable[[Report], float | None]:
    return lambda report: report.get(name)


def _cpu_per_request(report: Report) -> float | None:
    return 1000 * report["cpu_s"] / report["llm_requests"] if report.get("llm_requests") else None


def _growth(report: Report) -> float | None:
    return report["late_bytes"] / report["early_bytes"] if report.get("early_bytes") else None


COLUMNS: Mapping[Kind, Sequence[Column]] = {
    "work": (
        Column("wall s", _field("wall_s"), ranged=True),
        Column("CPU s", _field("cpu_s"), ranged=True),
        Column("CPU ms per request", _cpu_per_request),
        Column("÷ floor", _cpu_per_request, ratio=True),
        Column("requests", _field("llm_requests"), 0),
        Column("peak in flight", _field("max_in_flight"), 0),
        Column("connections", _field("connections"), 0),
        Column("rows", _field("rows"), 0),
        Column("max RSS MB", _field("max_rss_mb"), 0),
    ),
    "start": (
        Column("s to ready", _field("ready_s")),
        Column("s to first request", _field("first_request_s"), ranged=True),
        Column("÷ floor", _field("first_request_s"), ratio=True),
        Column("CPU s in all", _field("cpu_total_s")),
        Column("max RSS MB", _field("max_rss_mb"), 0),
    ),
    "memory": (
        Column("in flight", _field("held"), 0),
        Column("RSS MB with 1", _field("rss_one_mb"), 0),
        Column("RSS MB with all", _field("rss_all_mb"), 0),
        Column("KB per sub-agent", _field("kb_each"), 0),
        Column("s until all in flight", _field("all_held_s"), 1),
    ),
    "cancel": (
        Column("in flight", _field("held"), 0),
        Column("s until ended", _field("cancel_s"), 3, ranged=True),
        Column("s until the model saw the last close", _field("model_saw_s"), 3),
        Column("aborted", _field("aborted"), 0),
        Column("still in flight", _field("in_flight_after"), 0),
        Column("requests after", _field("requests_after"), 0),
        Column("tasks left", _field("tasks_left_later"), 0),
    ),
    "growth": (
        Column("bytes for the 20th turn", _field("early_bytes"), 0),
        Column("bytes for the 200th turn", _field("late_bytes"), 0),
        Column(
            "late ÷ early", lambda report: report["late_bytes"] / report["early_bytes"] if report["early_bytes"] else None
        ),
    ),
}


def summary(scenario: Scenario, results: Results) -> dict[str, dict[str, float]]:
    """The medians of every contestant, by heading."""
    return {
        name: {
            column.heading: value
            for column in COLUMNS[scenario.kind]
            if (value := _value(column, good, _good(results.get(REFERENCE, ())))) is not None
        }
        for name, reports in results.items()
        if (good := _good(reports))
    }


def table(scenario: Scenario, results: Results) -> str:
    """The medians as a table, with the number of successful rounds."""
    columns = COLUMNS[scenario.kind]
    figures = summary(scenario, results)
    lines = [["contestant", "ok", *(column.heading for column in columns)]]
    for name, reports in results.items():
        rounds = f"{len(_good(reports))}/{len(reports)}"
        if name in figures:
            shown = [_shown(column, figures[name].get(column.heading), _good(reports)) for column in columns]
        else:
            reason = str(reports[-1].get("final", "")).replace("|", "/").replace("\n", " ")
            shown = [f"failed: {reason[:80]}", *[""] * (len(columns) - 1)]
        lines.append([name, rounds, *shown])

    return f"{scenario.title}\n\n{_aligned(lines)}"


def _good(reports: Sequence[Report]) -> Sequence[Report]:
    return [report for report in reports if report["ok"]]


def _value(column: Column, reports: Sequence[Report], reference: Sequence[Report]) -> float | None:
    figure = _median(column, reports)
    if not column.ratio or figure is None:
        return figure

    floor = _median(column, reference)
    return figure / floor if floor else None


def _median(column: Column, reports: Sequence[Report]) -> float | None:
    figures = _figures(column, reports)
    return statistics.median(figures) if figures else None


def _figures(column: Column, reports: Sequence[Report]) -> list[float]:
    return [figure for report in reports if (figure := column.figure(report)) is not None]


def _shown(column: Column, figure: float | None, reports: Sequence[Report]) -> str:
    if figure is None:
        return "-"

    digits, figures = column.digits, _figures(column, reports)
    shown = f"{figure:.{digits}f}"
    return f"{shown} ({min(figures):.{digits}f}–{max(figures):.{digits}f})" if column.ranged and len(figures) > 1 else shown


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Cells as an aligned Markdown table."""
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    rows = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *rows[1:]])
