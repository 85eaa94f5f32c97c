"""What must hold of trees that spent, read from the rows and the purses after they ended.

Owns: the promises of budgets as questions to a service at rest, and the figures. Must not know: how a tree came about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.properties.spending_world import World
from tests.support.service import Bench

TINY = 1e-9


@dataclass
class Figures:
    """What a run of many trees measured."""

    trees: int = 0
    refused: int = 0
    executions: int = 0
    calls: int = 0
    limits: int = 0
    """Limits on money or tokens that something could have gone over."""
    over: int = 0
    """Limits that were gone over."""
    worst_share: float = 0.0
    """By how much at most, as a share of the limit."""
    worst_of_error: float = 0.0
    """By how much at most, as a share of the error of the estimates of the calls in flight."""
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.trees} trees ({self.refused} refused), {self.executions} executions, {self.calls} calls, {self.limits} "
            f"limits: {self.over} gone over, by {self.worst_share:.1%} of the limit and {self.worst_of_error:.0%} of the "
            f"estimates' error at most; {len(self.violations)} violations"
        )


class Ledger:
    """The rows of a service at rest, as a tree."""

    def __init__(self, service: Bench) -> None:
        tokens = "input_tokens + output_tokens + cache_read_tokens + cache_write_tokens as tokens"
        rows = service.sql(f"select *, {tokens} from executions")
        self.rows: dict[str, dict[str, Any]] = {row["id"]: row for row in rows}

    def line(self, execution: str) -> list[str]:
        """An execution and everything above it."""
        found: list[str] = []
        at: str | None = execution
        while at is not None:
            found.append(at)
            at = self.rows[at]["parent_execution_id"]
        return found

    def spent(self, top: str, column: str) -> float:
        """What an execution and everything below it spent."""
        return sum(float(row[column]) for each, row in self.rows.items() if top in self.line(each))

    def draws_on(self, execution: str, holder: str, *, money: bool) -> bool:
        """Whether an execution sets something aside at the limit of another: money stops where it was given in advance."""
        for each in self.line(execution):
            if each == holder:
                return True
            if money and self.rows[each]["budget_from_execution_id"] is not None:
                return False
        return False


def judge(service: Bench, world: World, trees: int, *, exact: bool) -> Figures:
    """Everything that must hold, and by how much limits were gone over."""
    ledger = Ledger(service)
    figures = Figures(trees, world.refused, len(ledger.rows), len(world.calls))
    figures.violations += [f"overdrawn: {each}" for each in world.overdrawn]
    figures.violations += [f"nothing is at rest: {each}" for each in _not_at_rest(ledger.rows, world)]
    figures.violations += _wrong_ends(ledger.rows, world, exact=exact)
    for top, row in ledger.rows.items():
        for column, limit in (("cost_usd", row["budget_usd"]), ("tokens", row["budget_tokens"])):
            if limit is not None:
                _weigh(figures, ledger, world, top, column, limit)
    if exact and figures.over:
        figures.violations.append(f"{figures.over} limits were gone over although every estimate was long enough")
    return figures


def _weigh(figures: Figures, ledger: Ledger, world: World, top: str, column: str, limit: float) -> None:
    figures.limits += 1
    over = ledger.spent(top, column) - limit
    if over <= TINY:
        return
    figures.over += 1
    figures.worst_share = max(figures.worst_share, over / limit)
    allowed = _error_in_flight(ledger, world, top, money=column == "cost_usd")
    if over > allowed + TINY:
        figures.violations.append(f"{top}: {column} {over} over {limit}, and the estimates were only {allowed} too short")
    else:
        figures.worst_of_error = max(figures.worst_of_error, over / allowed)


def _error_in_flight(ledger: Ledger, world: World, top: str, *, money: bool) -> float:
    """The errors of the calls that could have been in flight when the last call was admitted at a limit, or came later."""
    below = [each for each in world.calls if top in ledger.line(each.execution)]
    admitted = [each for each in below if ledger.draws_on(each.execution, top, money=money)]
    last = admitted[-1] if admitted else below[0]
    newest = {each.execution: each for each in below if each.number <= last.number and each.execution in last.alive}
    counted = [*newest.values(), *(each for each in below if each.number > last.number)]
    return sum(each.error * (each.rate if money else 1) for each in counted)


def _not_at_rest(rows: Mapping[str, Mapping[str, Any]], world: World) -> list[str]:
    found = [f"{each} has money set aside in its row" for each, row in rows.items() if row["budget_reserved_usd"] != 0]
    found += [f"{each} is open" for each, row in rows.items() if row["finished_at"] is None]
    for each, budget in world.budgets.items():
        if budget.grants or any(account.calls or abs(account.reserved) > TINY for account in budget.accounts):
            found.append(f"{each} has something set aside in a purse")
    return found


def _wrong_ends(rows: Mapping[str, Mapping[str, Any]], world: World, *, exact: bool) -> list[str]:
    """A failure is nobody else's, and whoever runs out of money has said what it found."""
    found: list[str] = []
    for each, node in world.planned.items():
        row = rows[each]
        unpaid = row["error"] is not None and row["error"].startswith("nothing was found")
        if row["status"] == "failed" and node.end == "answer" and (exact or not unpaid):
            found.append(f"{each} failed with its neighbours: {row['error']}")
        called_off = row["cancel_reason"] == "its caller is wrapping up"  # it had just got its slot
        if row["status"] in ("cancelled", "timed_out") and not called_off and _above_well(rows, world, each):
            found.append(f"{each} was stopped: {row['status']}")
        if exact and row["reason"] in ("cost_budget", "token_budget"):
            last = [call for call in world.calls if call.execution == each][-1]
            if not last.concluding:
                found.append(f"{each} ran out of {row['reason']} without a conclusion")
    return found


def _above_well(rows: Mapping[str, Mapping[str, Any]], world: World, execution: str) -> bool:
    """Whether nothing above it failed: only then nobody had a reason to stop it."""
    above = rows[execution]["parent_execution_id"]
    while above is not None:
        if rows[above]["status"] == "failed" or world.planned[above].end != "answer":
            return False
        above = rows[above]["parent_execution_id"]
    return True
