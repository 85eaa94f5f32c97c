"""Admission: an execution is born only if an answer of it can be paid. Until it ends, the price of one is kept for it.

The estimate is made in `runner/conclusion.py`. Without a budget on or above the execution this costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from db.status import ExecutionStatus
from runner.conclusion import price_of_answer
from runner.guard import too_little_left

if TYPE_CHECKING:
    from runner.execution import Execution


def keep_an_answer(execution: Execution) -> None:
    """Set aside what a conclusion of an execution that is about to be born costs; raises Refusal."""
    budget = execution.allowance.budget
    if budget is None or execution.status is not ExecutionStatus.PENDING:
        return
    price = price_of_answer(execution.services.settings, execution.request)
    if price is None:
        return
    if (short := budget.keep_for_conclusion(price.tariff, price.prompt)) is not None:
        raise too_little_left(execution.name, short, top_level=execution.parent is None)
