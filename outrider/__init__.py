"""The name under which Outrider starts: `outrider`, or `python -m outrider`. Its code is in the packages beside it.

Configurations name the built-in functions here: `function: outrider:add_item`.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # as `typing` has it, which costs some milliseconds to import
if TYPE_CHECKING:
    from runner.error_log import open_errors
    from runner.work_items.board import add_item

__all__ = ["add_item", "open_errors"]

_HOMES = {"add_item": "runner.work_items.board", "open_errors": "runner.error_log"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module `outrider` has no attribute `{name}`")
    found: object = getattr(import_module(_HOMES[name]), name)
    return found
