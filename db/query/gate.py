"""Limits how many queries run at once, in a service and for each caller.

Owns the slots and the queue. Each caller has a few slots and a short queue; further queries are refused at once. The
service has few slots for all callers, because queries share its processors. The gate does not read the queries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from db.errors import TooManyQueries
from db.query.query import query_request

AT_ONCE = 3
"""Queries that run at the same time, of all callers."""
OF_ONE_CALLER = 2
"""Of those, the most of one caller: another caller always finds a slot."""
WAITING = 8
"""Queries of one caller that may wait for a slot."""


@dataclass(slots=True)
class _Caller:
    places: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(OF_ONE_CALLER))
    admitted: int = 0
    """Queries that run or wait."""


class QueryGate:
    """Runs the queries of a service's callers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places = anyio.CapacityLimiter(AT_ONCE)
        self._callers: dict[str | None, _Caller] = {}

    async def ask(self, caller: str | None, sql: str, *, rows: int, size: int) -> dict[str, Any]:
        """The columns and at most `rows` rows, as objects, in at most `size` bytes of JSON; raises QueryRefused."""
        async with self._place(caller):
            request = query_request(self._path, sql, rows=rows, objects_within=size)
            with anyio.move_on_after(request.timeout):
                done = await anyio.run_process(request.command, input=request.words, check=False)
                return request.answer(done.returncode, done.stdout)
            return request.answer(None, b"")

    @asynccontextmanager
    async def _place(self, caller: str | None) -> AsyncIterator[None]:
        asking = self._callers.setdefault(caller, _Caller())
        if asking.admitted >= OF_ONE_CALLER + WAITING:
            raise TooManyQueries(
                f"{asking.admitted} queries of this caller run or wait already", "try again when one of them has ended"
            )
        asking.admitted += 1
        try:
            # The caller's own slot first: a caller with many queries then waits for itself, not ahead of other callers.
            async with asking.places, self._places:
                yield
        finally:
            asking.admitted -= 1
            if not asking.admitted:
                self._callers.pop(caller, None)
