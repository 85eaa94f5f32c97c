"""The error log: the errors recorded in this database, for functions and programs.

Owns how an error is shown outside of SQL, and the built-in function `outrider:open_errors`. Read-only. Must not know: how
errors are counted or stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from runner.functions.context import Context

if TYPE_CHECKING:
    from db.rows.error_records import ErrorRecords

MOST = 50
"""The most errors in one answer, last seen first."""

_NESTED = ("context", "related_errors")


class ErrorLog:
    """Every error once, with its count."""

    def __init__(self, records: ErrorRecords) -> None:
        self._records = records

    async def all(self, kind: str | None = None, *, only_open: bool = False) -> list[dict[str, Any]]:
        """Errors, last seen first; of one type, or only those that are not fixed."""
        return [as_object(row) for row in await self._records.listed(kind, only_open=only_open)]


def as_object(row: Mapping[str, Any]) -> dict[str, Any]:
    """An error as JSON data."""
    return {name: from_json(value) if name in _NESTED else value for name, value in row.items()}


async def open_errors(context: Context, type: str | None = None) -> dict[str, Any]:  # noqa: A002 - the name of a field
    """A function for agents: the errors that are not fixed, of one `type` or of all."""
    found = await context.errors.all(type, only_open=True)
    summary = f"{len(found)} open error{'' if len(found) == 1 else 's'}"
    return {"summary": summary, "total": len(found), "errors": found[:MOST]}
