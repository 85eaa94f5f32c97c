"""The error log: what went wrong in this database, for functions and programs to read.

Owns how an error is shown outside of SQL, and a function that an agent can be: `runner.error_log:open_errors`. Must not
know: how errors are counted or stored. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from runner.functions.context import Context

if TYPE_CHECKING:
    from db.rows.error_records import ErrorRecords

MOST = 50
"""Errors that an agent is shown at once, those that were seen last."""

_NESTED = ("context", "related_errors")


class ErrorLog:
    """Every error once, with how often it came."""

    def __init__(self, records: ErrorRecords) -> None:
        self._records = records

    async def all(self, kind: str | None = None, *, only_open: bool = False) -> list[dict[str, Any]]:
        """Errors, the one that was seen last first; of one type, or without those that are fixed."""
        return [as_object(row) for row in await self._records.listed(kind, only_open=only_open)]


def as_object(row: Mapping[str, Any]) -> dict[str, Any]:
    """An error as programs read it."""
    return {name: from_json(value) if name in _NESTED else value for name, value in row.items()}


async def open_errors(context: Context, type: str | None = None) -> dict[str, Any]:  # noqa: A002 - the name of a field
    """A function for an agent that looks errors up: those that nobody has fixed, of one `type` or of all."""
    found = await context.errors.all(type, only_open=True)
    summary = f"{len(found)} open error{'' if len(found) == 1 else 's'}"
    return {"summary": summary, "total": len(found), "errors": found[:MOST]}
