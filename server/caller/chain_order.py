"""The order of a chain: what a caller gives it, an alert or facts and a task, made into one order.

Owns the reading of alerts for every face. Must not know: how a refusal is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from registry import Settings, UnknownName
from runner.service.order import Order
from server.alerts import is_resolved, task_of, unwrapped


@dataclass(frozen=True, slots=True)
class ChainRequest:
    """Which chain to start, and what it gets."""

    chain: str
    task: str = ""
    input: Mapping[str, Any] | None = None
    """An alert as Alertmanager sends it, or facts."""
    timeout: float | None = None
    key: str | None = None


class ChainRefused(Exception):
    """The chain was not started; `hint` says what to do."""

    def __init__(self, kind: Literal["invalid_arguments", "unknown_chain", "resolved"], message: str, hint: str) -> None:
        super().__init__(message)
        self.kind, self.hint = kind, hint


def chain_order(settings: Settings, asked: ChainRequest, budget_usd: float | None = None) -> Order:
    """The order of a chain; raises ChainRefused."""
    said = bool(asked.task.strip())
    if not said and not asked.input:
        raise ChainRefused("invalid_arguments", "the chain has nothing to work on", "give `input`, or say it in `task`")
    try:
        chain = settings.chain(asked.chain)
    except UnknownName as error:
        raise ChainRefused("unknown_chain", str(error), error.hint) from error
    given = dict(unwrapped(asked.input)) if asked.input else None
    if given is not None and is_resolved(given) and not said:
        raise ChainRefused(
            "resolved", "the alert is resolved: nothing was started", "say in `task` what to find out about it"
        )
    task = asked.task if said else task_of(given or {})
    return Order(chain.name, task, given, asked.timeout, budget_usd, asked.key)
