"""The `route` block: settings of an agent that sends each message to the agent that should handle it.

Owns: the shape of an agent's `route` block and RouteSpec. Must not know: how a message is classified.
Invariant: a spec is complete; the defaults here are the built-in ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pydantic import Field

from registry.specs.commands import CommandEntry, CommandSpec, command_spec
from registry.text.entry import Count, Entry, Line
from registry.text.names import Directories, built_in

CLASSIFIER, RESPONDENT, COORDINATOR = "Classifier", "Respondent", "Coordinator"
"""The built-in agents that classify a message, answer it directly, and carry it out by a plan."""


class RouteEntry(Entry):
    """`route:` of an agent as written."""

    classifier: Line | None = Field(
        default=None, description="the agent that classifies a message; absent: the built-in one"
    )
    planner: Line | None = Field(
        default=None, description="the agent with strategy `plan` for messages that need one; absent: the built-in one"
    )
    respondent: Line | None = Field(
        default=None, description="the agent that answers messages for no other agent; absent: the built-in one"
    )
    history: Count = Field(default=4, description="messages of the conversation shown to classifier and planner")
    commands: dict[str, CommandEntry] = Field(
        default={}, description="commands by name, for messages that begin with `/`; they need no classifier"
    )


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """How an agent routes."""

    classifier: str = CLASSIFIER
    planner: str = COORDINATOR
    respondent: str = RESPONDENT
    history: int = 4
    commands: Mapping[str, CommandSpec] = field(default_factory=dict)

    @property
    def commanded(self) -> tuple[str, ...]:
        """Return the agents that commands name, each once."""
        return tuple(dict.fromkeys(name for command in self.commands.values() for name in command.agents))


def route_spec(entry: RouteEntry | None, names: Directories) -> RouteSpec:
    """Return the spec of a checked entry; without one, all defaults."""
    written = entry or RouteEntry()
    ours = {"classifier": CLASSIFIER, "planner": COORDINATOR, "respondent": RESPONDENT}
    chosen = {
        key: built_in(name, names.agents) if (own := getattr(written, key)) is None else names.agents.canonical(own)
        for key, name in ours.items()
    }
    commands = {name: command_spec(name, each, names) for name, each in written.commands.items()}
    return RouteSpec(history=written.history, commands=MappingProxyType(commands), **chosen)
