"""Calls: the top-level executions of an agent whose task was a command. What is read of them.

Knows nothing of what a command means. Queries are run by `db/reads.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, func, select

from db.tables import executions

Row = Mapping[str, Any]

LOOKED_AT = 100
"""The newest calls of somebody: what was left behind longer ago is begun anew."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who called, and whom."""

    agent: str
    principal: str | None
    user_id: str | None


class Calls:
    """Queries over the calls of one database."""

    def __init__(self, run: Callable[[Executable], Awaitable[list[Row]]]) -> None:
        self._run = run

    async def of(self, caller: Caller) -> list[Row]:
        """The newest calls of somebody to an agent, newest first."""
        mine = (
            executions.c.parent_execution_id.is_(None),
            executions.c.agent == caller.agent,
            func.coalesce(executions.c.principal, "") == (caller.principal or ""),
            func.coalesce(executions.c.user_id, "") == (caller.user_id or ""),
            func.substr(executions.c.task, 1, 1) == "/",
        )
        return await self._run(select(executions).where(*mine).order_by(executions.c.id.desc()).limit(LOOKED_AT))
