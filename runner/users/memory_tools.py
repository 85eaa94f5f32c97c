"""The tools of an agent that keeps a person's memory: store facts, search them, correct one, remove one.

Owns their arguments, their limits and what a model is told. `runner/users/memory.py` alone decides
whose memory it is: no argument names a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from db.rows.memories import UserFact, folded
from runner.errors import FactRefused
from runner.messages import ToolCall, clean
from runner.tools.builtin import Arguments, OwnTool, answer, refuse
from runner.tools.protocol import ToolResult
from runner.users.memory import Memory

EXTRACT, SEARCH, UPDATE, REMOVE = "extract_memory", "search_memory", "update_memory", "remove_memory"

LONGEST_FACT, LONGEST_CATEGORY, LONGEST_QUERY = 2_000, 50, 1_000
"""Characters. A fact is a sentence or two; what is longer belongs into a file."""
MOST_FACTS = 50
"""Of one call."""
GENERAL = "general"
"""The category of facts that have none."""


def sayable(text: str) -> str:
    """A text as it is stored; raises ValueError for one that says nothing."""
    kept = clean(text).strip()
    if not folded(kept):
        raise ValueError("it has no words")
    return kept


Content = Annotated[str, Field(max_length=LONGEST_FACT), AfterValidator(sayable)]
Category = Annotated[str, Field(max_length=LONGEST_CATEGORY), AfterValidator(lambda text: folded(clean(text)) or GENERAL)]
FactId = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""No larger than a number of the database can be."""


class NewFact(Arguments):
    """One fact to store."""

    content: Content = Field(description="The fact, as one sentence that can be understood on its own.")
    category: Category = Field(default=GENERAL, description="One word for what it is about, such as `preferences`.")


class ExtractArguments(Arguments):
    """What to store."""

    facts: list[NewFact] = Field(min_length=1, max_length=MOST_FACTS, description="The facts, one thing in each.")


class SearchArguments(Arguments):
    """What to look for."""

    query: str = Field(default="", max_length=LONGEST_QUERY, description="Words to look for; none: the newest facts.")
    limit: int = Field(default=10, ge=1, le=MOST_FACTS, description="Facts to return.")


class UpdateArguments(Arguments):
    """What to correct."""

    id: FactId = Field(description="The fact, by the id a search gave.")
    content: Content = Field(description="What is true now, as one sentence.")
    category: Category | None = Field(default=None, description="Another category; absent: as it was.")


class RemoveArguments(Arguments):
    """What to remove."""

    id: FactId = Field(description="The fact, by the id a search gave.")


def memory_tools(memory: Memory | None) -> list[OwnTool[Any]]:
    """The four tools over the memory of a person; None: nobody is worked for, and each call says so."""
    tools = _MemoryTools(memory)
    return [
        OwnTool(
            EXTRACT,
            "Store facts about the user for later conversations. A fact that is known already is not stored again.",
            ExtractArguments,
            tools.extract,
            effect="idempotent",
        ),
        OwnTool(SEARCH, "Find what is known about the user, best matches first.", SearchArguments, tools.search),
        OwnTool(
            UPDATE,
            "Correct a stored fact: it then says the new content only.",
            UpdateArguments,
            tools.update,
            effect="idempotent",
        ),
        OwnTool(
            REMOVE,
            "Remove a stored fact that is no longer true, or that the user wants forgotten.",
            RemoveArguments,
            tools.remove,
            effect="idempotent",
        ),
    ]


_NOBODY = refuse(
    "no_user",
    "there is no memory here: this work is done for no user",
    "go on without memory; whoever starts this agent has to name a user",
)


class _MemoryTools:
    """What happens when a tool is called."""

    def __init__(self, memory: Memory | None) -> None:
        self._memory = memory

    async def extract(self, _call: ToolCall, arguments: ExtractArguments) -> ToolResult:
        if self._memory is None:
            return _NOBODY
        kept = await self._memory.remember([(fact.category, fact.content) for fact in arguments.facts])
        return answer(
            {
                "stored": [_shown(fact) for fact in kept if not fact.known],
                "known": [_shown(fact) for fact in kept if fact.known],
            }
        )

    async def search(self, _call: ToolCall, arguments: SearchArguments) -> ToolResult:
        if self._memory is None:
            return _NOBODY
        found = await self._memory.search(clean(arguments.query), arguments.limit + 1)
        facts = [_found(row) for row in found[: arguments.limit]]
        return answer({"facts": facts, "more": len(found) > arguments.limit})

    async def update(self, _call: ToolCall, arguments: UpdateArguments) -> ToolResult:
        if self._memory is None:
            return _NOBODY
        try:
            fact = await self._memory.amend(arguments.id, arguments.content, arguments.category)
        except FactRefused as error:
            return refuse(error.kind, str(error), error.hint)
        return answer({"updated": _shown(fact)})

    async def remove(self, _call: ToolCall, arguments: RemoveArguments) -> ToolResult:
        if self._memory is None:
            return _NOBODY
        try:
            fact = await self._memory.forget(arguments.id)
        except FactRefused as error:
            return refuse(error.kind, str(error), error.hint)
        return answer({"removed": _shown(fact)})


def _shown(fact: UserFact) -> dict[str, Any]:
    return {"id": fact.id, "category": fact.category, "content": fact.content}


def _found(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("id", "category", "content", "updated_at")}
