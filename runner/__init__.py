"""Runs agents: the execution tree, the strategies, the seams to models and tools. `__all__` is the public API.

Names load on first use: importing this package imports no other module.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing `typing` for it would cost milliseconds
if TYPE_CHECKING:
    from runner.errors import Refusal
    from runner.functions.context import Context
    from runner.result import Outcome, Problem, Result
    from runner.service.dispatcher import Dispatcher, open_dispatcher
    from runner.service.order import Order
    from runner.snapshot import Snapshot

__all__ = ["Context", "Dispatcher", "Order", "Outcome", "Problem", "Refusal", "Result", "Snapshot", "open_dispatcher"]

_HOMES = {
    "Snapshot": "runner.snapshot",
    "Context": "runner.functions.context",
    "Dispatcher": "runner.service.dispatcher",
    "Order": "runner.service.order",
    "Outcome": "runner.result",
    "Problem": "runner.result",
    "Refusal": "runner.errors",
    "Result": "runner.result",
    "open_dispatcher": "runner.service.dispatcher",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module `runner` has no attribute `{name}`")
    found: object = getattr(import_module(_HOMES[name]), name)
    return found
