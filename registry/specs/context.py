"""The `context` block: how much an agent is told besides its task, and when its conversation is compacted.

Owns: the shape of the block and ContextSpec. Must not know: how a prompt is assembled.
Invariant: the role of the called agent decides every value that is None.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict

from registry.text.entry import Count, Entry, Line, Share
from registry.text.variables import typed

MemoryShown = Literal["full", "filtered", "none"]
PromptOrder = Literal["seed", "stable"]
Level = Annotated[
    int,
    Strict(),
    BeforeValidator(typed, json_schema_input_type=Annotated[int, Field(ge=1, le=3)]),
    Field(ge=1, le=3),
]

COMPACT_AT = 0.8
"""The remaining share exceeds the error of estimated token counts."""


class ContextEntry(Entry):
    """`context:` of an agent as written."""

    memory: MemoryShown | None = Field(
        default=None, description="facts about the user: all, those that match its task, or none; absent: by role"
    )
    history: Annotated[int, Strict(), Field(ge=0)] | None = Field(
        default=None, description="messages of the conversation it is shown; absent: by role"
    )
    budget: Count | None = Field(
        default=None, description="the most tokens of its context besides the task; absent: by role"
    )
    order: PromptOrder = Field(
        default="seed", description="order of its prompt; `stable`: changing parts come last, so that more of it is cached"
    )
    level: Level | None = Field(
        default=None, description="which `context_files` it is shown: 1 common, 2 its `language` too, 3 all; absent: none"
    )
    language: Line | None = Field(default=None, description="whose `context_files` it is shown, with `level: 2`")
    compact_at: Share = Field(
        default=COMPACT_AT,
        description="share of its model's `context_window` from which the conversation is compacted",
    )


@dataclass(frozen=True, slots=True)
class ContextSpec:
    """The context of an agent."""

    memory: MemoryShown | None = None
    history: int | None = None
    budget: int | None = None
    order: PromptOrder = "seed"
    level: int | None = None
    language: str | None = None
    compact_at: float = COMPACT_AT

    def over(self, other: "ContextSpec") -> "ContextSpec":
        """Return this spec, with its None values taken from the other."""
        return replace(
            self,
            memory=self.memory or other.memory,
            history=other.history if self.history is None else self.history,
            budget=self.budget or other.budget,
            order=other.order if self.order == "seed" else self.order,
            level=self.level or other.level,
            language=self.language or other.language,
        )


def context_spec(entry: ContextEntry) -> ContextSpec:
    """Return the spec of a checked entry."""
    return ContextSpec(
        entry.memory, entry.history, entry.budget, entry.order, entry.level, entry.language, entry.compact_at
    )
