"""Routing: what the configuration says about an agent that sends each message to whoever should handle it.

Owns: the shape of an agent's `route` block and RouteSpec. Must not know: how a message is judged.
Invariant: a spec is whole; the defaults here are the built-in ones.
"""

from dataclasses import dataclass

from pydantic import Field

from registry.entry import Count, Entry, Line
from registry.names import Directories, built_in

CLASSIFIER, RESPONDENT, COORDINATOR = "Classifier", "Respondent", "Coordinator"
"""The built-in agents that judge a message, answer it in words, and carry it out by a plan."""


class RouteEntry(Entry):
    """`route:` of an agent as written."""

    classifier: Line | None = Field(default=None, description="the agent that judges a message; absent: the built-in one")
    planner: Line | None = Field(
        default=None, description="the agent with strategy `plan` for messages that need one; absent: the built-in one"
    )
    respondent: Line | None = Field(
        default=None, description="the agent that answers messages that concern nobody; absent: the built-in one"
    )
    history: Count = Field(default=4, description="messages of the conversation that classifier and planner are shown")


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """How an agent routes."""

    classifier: str = CLASSIFIER
    planner: str = COORDINATOR
    respondent: str = RESPONDENT
    history: int = 4


def route_spec(entry: RouteEntry | None, names: Directories) -> RouteSpec:
    """Return the spec of a checked entry; no entry is one that leaves everything to us."""
    written = entry or RouteEntry()
    ours = {"classifier": CLASSIFIER, "planner": COORDINATOR, "respondent": RESPONDENT}
    chosen = {
        key: built_in(name, names.agents) if (own := getattr(written, key)) is None else names.agents.canonical(own)
        for key, name in ours.items()
    }
    return RouteSpec(history=written.history, **chosen)
