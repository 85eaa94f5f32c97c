"""Chat: who answers the people of the `users` section, and what is learned of them from what they say.

Owns: the shape of the `chat` section and ChatSpec. Must not know: how a message is answered.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from registry.entry import Budget, Entry, Line
from registry.names import Directory, built_in

EXTRACTOR = "MemoryExtractor"
"""The built-in agent that reads a conversation and keeps facts about its user."""

Extract = Literal["never", "after_answer"]


class ChatMemoryEntry(Entry):
    """`memory` of the `chat` section as written."""

    extract: Extract = Field(
        default="never", description="`after_answer`: facts are taken from the conversation, in the background"
    )
    model: Line | None = Field(default=None, description="a name from `models`, a cheap one; absent: `defaults.model`")
    max_facts: Annotated[int, Field(ge=1, le=20)] = Field(default=5, description="facts that are kept at once, at most")
    budget_usd: Budget | None = Field(default=None, description="what it may cost each time; absent: tokens bound it")


class ChatEntry(Entry):
    """The `chat` section as written."""

    agent: Line = Field(description="the agent or chain that answers what users say")
    memory: ChatMemoryEntry = Field(default=ChatMemoryEntry(), description="what is learned of users from what they say")


@dataclass(frozen=True, slots=True)
class ChatMemorySpec:
    """What is learned of users from what they say."""

    extractor: str
    """The agent that does it."""
    max_facts: int
    budget_usd: float | None


@dataclass(frozen=True, slots=True)
class ChatSpec:
    """Who answers users."""

    agent: str
    memory: ChatMemorySpec | None = None
    """None where nothing is learned."""


def chat_spec(entry: ChatEntry, subjects: Directory) -> ChatSpec:
    """Return the spec of a checked section; `subjects` are agents and chains."""
    memory = None
    if entry.memory.extract == "after_answer":
        extractor = subjects.canonical(built_in(EXTRACTOR, subjects))
        memory = ChatMemorySpec(extractor, entry.memory.max_facts, entry.memory.budget_usd)
    return ChatSpec(subjects.canonical(entry.agent), memory)
