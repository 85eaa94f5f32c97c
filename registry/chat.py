"""Chat: who answers the people of the `users` section.

Owns: the shape of the `chat` section and ChatSpec. Must not know: how a message is answered.
"""

from dataclasses import dataclass

from pydantic import Field

from registry.entry import Entry, Line
from registry.names import Directory


class ChatEntry(Entry):
    """The `chat` section as written."""

    agent: Line = Field(description="the agent or chain that answers what users say")


@dataclass(frozen=True, slots=True)
class ChatSpec:
    """Who answers users."""

    agent: str


def chat_spec(entry: ChatEntry, subjects: Directory) -> ChatSpec:
    """Return the spec of a checked section; `subjects` are agents and chains."""
    return ChatSpec(subjects.canonical(entry.agent))
