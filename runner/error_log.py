"""The error log: the error records of this database, for functions and programs. Read-only.

Owns the form of an error outside SQL, and `runner.error_log:open_errors`, a function for an agent with the strategy
`function`. It does not know how errors are counted or stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from runner.functions.context import Context

if TYPE_CHECKING:
    from db.rows.error_records import ErrorRecords

MOST = 50
"""Maximum number of errors in an agent's answer, the most recent ones."""

_NESTED = ("context", "related_errors")


class ErrorLog:
    """Each error once, with its count."""

    def __init__(self, records: ErrorRecords) -> None:
        self._records = records

    async def all(self, kind: str | None = None, *, only_open: bool = False) -> list[dict[str, Any]]:
        """The errors, most recent first; only those of one type, or only unfixed ones."""
        return [as_object(row) for row in await self._records.listed(kind, only_open=only_open)]


def as_object(row: Mapping[str, Any]) -> dict[str, Any]:
    """An error row with its nested JSON decoded."""
    return {name: from_json(value) if name in _NESTED else value for name, value in row.items()}


async def open_errors(context: Context, type: str | None = None) -> dict[str, Any]:  # noqa: A002 - the name of a field
    """The unfixed errors, of one `type` or of all, as the answer of an agent."""
    found = await context.errors.all(type, only_open=True)
    summary = f"{len(found)} open error{'' if len(found) == 1 else 's'}"
    return {"summary": summary, "total": len(found), "errors": found[:MOST]}
