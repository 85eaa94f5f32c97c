"""Usage by agent, model and day, and the errors that were recorded: what an operator looks at beside single executions.

Owns how sums of rows become rows of a report. Must not know: who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from db.rows.error_records import ErrorPageFilter
from db.rows.reads import Reads
from db.rows.usage import PRICE_KINDS
from runner.error_log import as_object
from server.views.figures import UsageReport, UsageRow
from server.views.filters import ErrorFilter
from server.views.records import ErrorPage

Row = Mapping[str, Any]

MOST_DAYS = 366
"""Days of one report."""
SEPARATOR = "~"
"""Between the parts of a cursor: when an error was last seen, and its id."""

_CONDITIONS = ("principal", "execution", "kind", "agent", "severity", "only_open")
_SUMS = tuple(name for name in UsageRow.model_fields if name not in ("name", "pricing"))


async def report(reads: Reads, days: int, principal: str | None) -> UsageReport:
    """What was used on the last days, today included."""
    first = datetime.now(UTC).date() - timedelta(days=min(max(days, 1), MOST_DAYS) - 1)
    rows = await reads.usage.since(first.isoformat(), principal)
    by_day = sorted(_grouped(rows, "day"), key=lambda row: row.name)
    total = _grouped(({**row, "all": ""} for row in rows), "all")
    return UsageReport(
        since=first.isoformat(),
        by_agent=_greatest_first(_grouped(rows, "agent")),
        by_model=_greatest_first(_grouped((row for row in rows if row["model"]), "model")),
        by_day=by_day,
        total=total[0] if total else UsageRow(name="", pricing=[], **dict.fromkeys(_SUMS, 0)),
    )


async def recorded(reads: Reads, wanted: ErrorFilter) -> ErrorPage:
    """A page of recorded errors, last seen first."""
    seen, _, identifier = (wanted.cursor or "").partition(SEPARATOR)
    page = ErrorPageFilter(
        **{name: getattr(wanted, name) for name in _CONDITIONS}, before=(seen, identifier) if seen else None
    )
    rows = await reads.error_records.page(page, wanted.limit + 1)
    shown = rows[: wanted.limit]
    more = SEPARATOR.join((shown[-1]["last_seen"], shown[-1]["id"])) if len(rows) > wanted.limit and shown else None
    return ErrorPage(errors=[as_object(row) for row in shown], next_cursor=more)


def _greatest_first(rows: list[UsageRow]) -> list[UsageRow]:
    return sorted(rows, key=lambda row: (-row.cost_usd, -row.executions, row.name))


def _grouped(rows: Iterable[Row], by: str) -> list[UsageRow]:
    sums: dict[str, dict[str, Any]] = {}
    kinds: dict[str, int] = {}
    for row in rows:
        own = sums.setdefault(row[by], dict.fromkeys(_SUMS, 0))
        for name in _SUMS:
            own[name] += row[name]
        kinds[row[by]] = kinds.get(row[by], 0) | row["price_kinds"]
    return [
        UsageRow(name=name, **own, pricing=sorted(kind for kind, bit in PRICE_KINDS.items() if kinds[name] & bit))
        for name, own in sums.items()
    ]
