"""The events of one execution and everything below it, from rows: for a process that runs nothing and writes nothing.

Owns the position in the events, and the question whether a process runs them. Must not know: what an event means for a
picture. Invariants: each event of the subtree comes once and in order, from its first one on; a process that died is told
once, and the events go on when another has taken over.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from db.errors import UnknownExecution
from db.rows.changes import Changes, changes_of
from db.rows.reads import Reads
from db.store.owners import doubtful, is_alive

Event = Mapping[str, Any]

LOOK_SECONDS = 0.1
"""Between looks at whether others have written."""
OWNER_SECONDS = 1.0
"""Between looks at whether the process that runs it lives."""
PAGE = 1_000


class RowFollower:
    """Follows one execution, of any process."""

    def __init__(self, reads: Reads, database: Path, top: str) -> None:
        self._reads, self._database, self._top = reads, database, top
        self._known, self._seen = {top}, 0
        self._dead: str | None = None
        """The process that ran it and is gone."""
        self.is_gone = False
        """Whether no process runs it, although it has not ended."""

    async def events(self, tell: Callable[[bool], None] | None = None) -> AsyncGenerator[Event]:
        """Its events until it has ended. Raises UnknownExecution when it is deleted meanwhile.

        When the process that runs it is gone, they end; with `tell`, that is told, and they go on after a resume.
        """
        async with changes_of(self._database) as changes:
            await changes.have_come()
            while True:
                row = await self._reads.execution(self._top)  # first: what ended before has all its events below
                if row is None:
                    raise UnknownExecution(self._top)
                while page := await self._reads.events(row["root_execution_id"], self._seen, PAGE):
                    self._seen = page[-1]["seq"]
                    for event in page:
                        if self._takes(event):
                            yield event
                if row["finished_at"] is not None:
                    self._tell_return(row["owner"], tell)
                    return
                if not await self._change(changes, row["owner"], tell):
                    return

    def _takes(self, event: Event) -> bool:
        """Whether an event belongs to the subtree."""
        if event["execution_id"] not in self._known:
            if event["parent_execution_id"] not in self._known:
                return False
            self._known.add(event["execution_id"])
        return True

    async def _change(self, changes: Changes, owner: str | None, tell: Callable[[bool], None] | None) -> bool:
        """Wait until there may be more; False when there will be none."""
        look_again = 0.0
        while True:
            if time.monotonic() >= look_again:
                look_again = time.monotonic() + OWNER_SECONDS
                if owner is None or not self._is_dead(owner):
                    self._tell_return(owner, tell)
                else:
                    if tell is None:
                        self.is_gone = True
                        return await changes.have_come()  # its last words are read before
                    if not self.is_gone:
                        self.is_gone, self._dead = True, owner
                        tell(True)
            if await changes.have_come():
                return True
            await anyio.sleep(LOOK_SECONDS)

    def _tell_return(self, owner: str | None, tell: Callable[[bool], None] | None) -> None:
        """It has a living process, or has ended: a resumed tree may end between two looks at its process."""
        if self.is_gone and tell is not None and owner != self._dead:
            tell(False)
        self.is_gone = False

    def _is_dead(self, owner: str) -> bool:
        return not is_alive(self._database, owner) and not doubtful(self._database, [owner])
