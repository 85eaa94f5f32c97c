"""The memory tools: store facts about the user, search, correct and remove them.

Owns their arguments, limits and answers. `runner/users/memory.py` alone decides whose memory is used: no argument names
a user.
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
"""Characters. A fact is a sentence or two; longer text belongs in a file."""
MOST_FACTS = 50
"""In one call."""
GENERAL = "general"
"""The category of facts without one."""


def stored_text(text: str) -> str:
    """The stored form of a text; raises ValueError if it has no words."""
    kept = clean(text).strip()
    if not folded(kept):
        raise ValueError("it has no words")
    return kept


Content = Annotated[str, Field(max_length=LONGEST_FACT), AfterValidator(stored_text)]
Category = Annotated[str, Field(max_length=LONGEST_CATEGORY), AfterValidator(lambda text: folded(clean(text)) or GENERAL)]
FactId = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""Within the range of a database integer."""


class NewFact(Arguments):
    content: Content = Field(description="The fact, as one sentence that can be understood on its own.")
    category: Category = Field(default=GENERAL, description="One word for what it is about, such as `preferences`.")


class ExtractMemoryArguments(Arguments):
    facts: list[NewFact] = Field(min_length=1, max_length=MOST_FACTS, description="The facts, one thing in each.")


class SearchMemoryArguments(Arguments):
    query: str = Field(default="", max_length=LONGEST_QUERY, description="Words to look for; none: the newest facts.")
    limit: int = Field(default=10, ge=1, le=MOST_FACTS, description="Facts to return.")


class UpdateMemoryArguments(Arguments):
    id: FactId = Field(description="The fact, by the id a search gave.")
    content: Content = Field(description="What is true now, as one sentence.")
    category: Category | None = Field(default=None, description="Another category; absent: as it was.")


class RemoveMemoryArguments(Arguments):
    id: FactId = Field(description="The fact, by the id a search gave.")


def memory_tools(memory: Memory | None) -> list[OwnTool[Any]]:
    """The four memory tools. Without a memory, because no user was given, every call is refused."""
    tools = _MemoryTools(memory)
    return [
        OwnTool(
            EXTRACT,
            "Store facts about the user for later conversations. A fact that is known already is not stored again.",
            ExtractMemoryArguments,
            tools.extract,
            effect="idempotent",
        ),
        OwnTool(SEARCH, "Find what is known about the user, best matches first.", SearchMemoryArguments, tools.search),
        OwnTool(
            UPDATE,
            "Correct a stored fact: the new content replaces it.",
            UpdateMemoryArguments,
            tools.update,
            effect="idempotent",
        ),
        OwnTool(
            REMOVE,
            "Remove a stored fact that is no longer true, or that the user wants forgotten.",
            RemoveMemoryArguments,
            tools.remove,
            effect="idempotent",
        ),
    ]


_NO_USER = refuse(
    "no_user",
    "no memory: this execution has no user",
    "continue without memory; the caller must name a user",
)


class _MemoryTools:
    """The handlers of the tools."""

    def __init__(self, memory: Memory | None) -> None:
        self._memory = memory

    async def extract(self, _call: ToolCall, arguments: ExtractMemoryArguments) -> ToolResult:
        if self._memory is None:
            return _NO_USER
        kept = await self._memory.remember([(fact.category, fact.content) for fact in arguments.facts])
        return answer(
            {
                "stored": [_shown(fact) for fact in kept if not fact.known],
                "known": [_shown(fact) for fact in kept if fact.known],
            }
        )

    async def search(self, _call: ToolCall, arguments: SearchMemoryArguments) -> ToolResult:
        if self._memory is None:
            return _NO_USER
        found = await self._memory.search(clean(arguments.query), arguments.limit + 1)
        facts = [_found(row) for row in found[: arguments.limit]]
        return answer({"facts": facts, "more": len(found) > arguments.limit})

    async def update(self, _call: ToolCall, arguments: UpdateMemoryArguments) -> ToolResult:
        if self._memory is None:
            return _NO_USER
        try:
            fact = await self._memory.amend(arguments.id, arguments.content, arguments.category)
        except FactRefused as error:
            return refuse(error.kind, str(error), error.hint)
        return answer({"updated": _shown(fact)})

    async def remove(self, _call: ToolCall, arguments: RemoveMemoryArguments) -> ToolResult:
        if self._memory is None:
            return _NO_USER
        try:
            fact = await self._memory.forget(arguments.id)
        except FactRefused as error:
            return refuse(error.kind, str(error), error.hint)
        return answer({"removed": _shown(fact)})


def _shown(fact: UserFact) -> dict[str, Any]:
    return {"id": fact.id, "category": fact.category, "content": fact.content}


def _found(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("id", "category", "content", "updated_at")}
