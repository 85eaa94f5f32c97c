"""Delegations: what agents have handed to each other, as the view of that name shows it. A read model: nothing is kept.

Owns which columns a delegation has. Whatever is at work is there, and what ended stays for an hour.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sqlalchemy import Executable, column, select, table

Row = Mapping[str, Any]

FIELDS = (
    *("session_id", "command", "subagent", "task_number", "language", "start_time", "timeout", "deadline", "status"),
    *("delegation_depth", "delegation_path"),
)
"""What is told of each."""

_view = table("delegations", *map(column, (*FIELDS, "execution_id", "principal")))


class Delegations:
    """Queries over the delegations of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def tracked(self, principal: str | None = None) -> list[Row]:
        """All of them, or those of one principal, in the order they were made."""
        query = select(*(_view.c[name] for name in ("execution_id", *FIELDS)))
        if principal is not None:
            query = query.where(_view.c.principal == principal)
        return await self._run(query.order_by(_view.c.execution_id))
