"""Usage: what executions used by agent, model and day, and by which kinds of price.

Owns these queries; `db/rows/reads.py` runs them. Invariant: without a principal, ended executions are read from the daily
totals that triggers keep; with one, the number of executions that are read is bounded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Executable, FromClause, case, func, literal, literal_column, select, union_all

from db.status import OPEN
from db.tables import daily_totals, executions, model_calls

Row = Mapping[str, Any]

MOST = 20_000
"""The newest executions of a principal that are read."""
PRICE_KINDS = {"priced": 1, "partly": 2, "unpriced": 4, "rehearsed": 8}
"""The bits of `price_kinds`."""
TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

_OPEN = sorted(status.value for status in OPEN)
_SUMS = ("executions", "failed", "model_calls", *TOKENS, "cost_usd", "seconds")


class UsageReads:
    """Queries over what executions of one database used."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def since(self, day: str, principal: str | None = None) -> list[Row]:
        """What was used since a day, by agent, day and model; the kinds of price of each may be in several rows."""
        if principal is None:
            ended = select(
                *(daily_totals.c[name] for name in ("agent", "day", "model", "executions", "failed")),
                daily_totals.c.turns.label("model_calls"),
                *(daily_totals.c[name] for name in (*TOKENS, "cost_usd", "seconds", "price_kinds")),
            ).where(daily_totals.c.day >= day)
            open_ = select(*_each(executions)).where(executions.c.status.in_(_OPEN), executions.c.created_at >= day)
            used = union_all(ended, open_).subquery("used")
        else:
            newest = select(executions).where(executions.c.principal == principal).order_by(executions.c.id.desc())
            mine = newest.limit(MOST).subquery("mine")
            used = select(*_each(mine)).where(mine.c.created_at >= day).subquery("used")
        key = used.c.agent, used.c.day, used.c.model, used.c.price_kinds
        sums = [func.sum(used.c[name]).label(name) for name in _SUMS]
        return await self._run(select(*key, *sums).group_by(*key))


def _each(of: FromClause) -> list[ColumnElement[Any]]:
    """What single executions used, in the columns of the daily totals."""
    end = func.coalesce(of.c.finished_at, literal_column("strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"))
    lasted = (func.julianday(end) - func.julianday(of.c.started_at)) * literal(86400.0)
    rehearsed = model_calls.c.rehearsed == 1
    kinds: ColumnElement[Any] = func.coalesce(func.max(case((rehearsed, PRICE_KINDS["rehearsed"]), else_=0)), 0)
    for name, bit in PRICE_KINDS.items():
        if name != "rehearsed":
            has = case((~rehearsed & (model_calls.c.pricing == name), bit), else_=0)
            kinds += func.coalesce(func.max(has), 0)
    return [
        of.c.agent,
        func.substr(of.c.created_at, 1, 10).label("day"),
        func.coalesce(of.c.model, "").label("model"),
        literal(1).label("executions"),
        case((of.c.status.in_(("failed", "timed_out")), 1), else_=0).label("failed"),
        of.c.turns.label("model_calls"),
        *(of.c[name] for name in (*TOKENS, "cost_usd")),
        func.max(literal(0.0), func.coalesce(lasted, literal(0.0))).label("seconds"),
        select(kinds).where(model_calls.c.execution_id == of.c.id).scalar_subquery().label("price_kinds"),
    ]
