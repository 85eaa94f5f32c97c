"""The memory of the person an execution works for: what it may store, find, change and remove there.

Owns the binding of one execution to one person, and why a change is refused. Must not know: tools, models or SQL.
Invariant: whatever is asked, it is about this person's facts; those of others do not exist here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from db.rows import memories
from db.rows.memories import Facts, Keeper, UserFact
from runner.errors import FactRefused, Fenced
from runner.record.recorder import Recorder


class Memory:
    """What one execution knows and learns of its person."""

    __slots__ = ("_keeper", "_known", "_recorder")

    def __init__(self, keeper: Keeper, known: Facts, recorder: Recorder) -> None:
        self._keeper, self._known, self._recorder = keeper, known, recorder

    async def remember(self, told: Sequence[tuple[str, str]]) -> Sequence[UserFact]:
        """Store facts, as category and content, that are not known; returns the known ones and the new ones."""
        ticket = await self._recorder.record_fenced(memories.remember(self._keeper, told), self._keeper.place.id)
        return [UserFact(*row) for row in ticket.touched]

    async def search(self, words: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """The facts that fit, best first; without any words the newest."""
        if not words.strip():
            return await self._known.newest(self._keeper.user, limit)
        return await self._known.search(self._keeper.user, words, limit)

    async def amend(self, fact: int, content: str, category: str | None) -> UserFact:
        """Let a fact say something else; raises FactRefused."""
        ticket = await self._recorder.record(memories.amend(self._keeper, fact, content, category))
        if ticket.held:
            return UserFact(*ticket.touched[0])
        same = await self._known.saying(self._keeper.user, content)
        if same is not None and same["id"] != fact and await self._known.one(self._keeper.user, fact) is not None:
            message = f"fact {same['id']} says the same already"
            raise FactRefused("known_fact", message, f"keep that one, and remove fact {fact} if it is no longer true")
        raise await self._why(fact)

    async def forget(self, fact: int) -> UserFact:
        """Remove a fact; raises FactRefused."""
        ticket = await self._recorder.record(memories.forget(self._keeper, fact))
        if ticket.held:
            return UserFact(*ticket.touched[0])
        raise await self._why(fact)

    async def _why(self, fact: int) -> Exception:
        """Why a change did not hold: there is no such fact, or the execution is somebody else's by now."""
        if await self._known.one(self._keeper.user, fact) is not None:
            return Fenced(self._keeper.place.id)
        return FactRefused("unknown_fact", f"there is no fact {fact}", "search the memory for the facts there are")
