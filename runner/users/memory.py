"""The memory of an execution's user: store, search, correct and remove facts.

Owns the binding of one execution to one user, and the reasons for refusals. Must not know: tools, models or SQL.
Invariant: every operation is limited to the facts of this user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from db.rows import memories
from db.rows.memories import Facts, MemoryScope, UserFact
from runner.errors import FactRefused, Fenced
from runner.record.recorder import Recorder


class Memory:
    """The facts of one execution's user."""

    __slots__ = ("_keeper", "_known", "_recorder")

    def __init__(self, keeper: MemoryScope, known: Facts, recorder: Recorder) -> None:
        self._keeper, self._known, self._recorder = keeper, known, recorder

    async def remember(self, facts: Sequence[tuple[str, str]]) -> Sequence[UserFact]:
        """Store facts, given as category and content. Returns all; those that existed before are marked as known."""
        ticket = await self._recorder.record_fenced(memories.remember(self._keeper, facts), self._keeper.place.id)
        return [UserFact(*row) for row in ticket.touched]

    async def search(self, words: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """The matching facts, best first; without words the newest."""
        if not words.strip():
            return await self._known.newest(self._keeper.user, limit)
        return await self._known.search(self._keeper.user, words, limit)

    async def amend(self, fact: int, content: str, category: str | None) -> UserFact:
        """Replace the content of a fact; raises FactRefused."""
        ticket = await self._recorder.record(memories.amend(self._keeper, fact, content, category))
        if ticket.held:
            return UserFact(*ticket.touched[0])
        same = await self._known.saying(self._keeper.user, content)
        if same is not None and same["id"] != fact and await self._known.one(self._keeper.user, fact) is not None:
            message = f"fact {same['id']} already says the same"
            raise FactRefused("known_fact", message, f"keep it; remove fact {fact} if it is no longer true")
        raise await self._refusal(fact)

    async def forget(self, fact: int) -> UserFact:
        """Remove a fact; raises FactRefused."""
        ticket = await self._recorder.record(memories.forget(self._keeper, fact))
        if ticket.held:
            return UserFact(*ticket.touched[0])
        raise await self._refusal(fact)

    async def _refusal(self, fact: int) -> Exception:
        """The error for a change that was not applied: an unknown fact, or an execution that another process took over."""
        if await self._known.one(self._keeper.user, fact) is not None:
            return Fenced(self._keeper.place.id)
        return FactRefused("unknown_fact", f"unknown fact {fact}", "search the memory for existing facts")
