"""The configuration file as a whole, as written.

Owns: the sections of the file and their merge over what is built in. Must not know: what holds after resolution.
Invariant: it is the one shape that validation, the JSON schema and the error texts are made from.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from registry.agents import AgentEntry
from registry.chains import ChainEntry
from registry.chat import ChatEntry
from registry.context_files import ContextFilesEntry
from registry.entry import Entry, Line
from registry.limits import ServiceLimitOverrides
from registry.models import BUILT_IN_MODEL, ModelEntry
from registry.names import fold
from registry.serving import ServeEntry
from registry.staff import staff_of
from registry.upstreams import UpstreamEntry
from registry.users import UserEntry
from registry.work_items import WorkItemsEntry


class DefaultsEntry(Entry):
    """`defaults` as written: what holds where an agent says nothing."""

    model: Line | None = Field(default=None, description="model of agents that name none; absent: the only one there is")
    limits: ServiceLimitOverrides = Field(default=ServiceLimitOverrides(), description="limits of agents that set none")


class Document(Entry):
    """The whole file."""

    defaults: DefaultsEntry = Field(default=DefaultsEntry(), description="what holds where an agent says nothing")
    models: dict[str, ModelEntry] = Field(default={}, description="the models agents may name")
    mcp_servers: dict[str, UpstreamEntry] = Field(default={}, description="the servers whose tools agents may have")
    agents: dict[str, AgentEntry] = Field(default={}, description="who does the work")
    agent_chains: dict[str, ChainEntry] = Field(default={}, description="stages of agents, in order")
    context_files: ContextFilesEntry = Field(
        default=ContextFilesEntry(), description="files agents are shown, by the level of their `context`"
    )
    users: dict[str, UserEntry] = Field(default={}, description="the people agents work for")
    chat: ChatEntry | None = Field(default=None, description="who answers them")
    serve: ServeEntry = Field(default=ServeEntry(), description="what MCP clients get, and who may call")
    work_items: WorkItemsEntry = Field(default=WorkItemsEntry(), description="what there is to do, by number")


SECTIONS = tuple(Document.model_fields)


def with_built_ins(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree with what is built in laid under it: a user's agent replaces only the fields it gives."""
    merged = dict(tree)
    if merged.get("models", {}) == {}:
        name, entry = BUILT_IN_MODEL
        merged["models"] = {name: entry}
    own = merged.get("agents", {})
    if not isinstance(own, Mapping):
        return merged
    agents = dict(own)
    own_names = {fold(name): name for name in agents}
    for name, built_in in staff_of(agents).items():
        key = own_names.get(fold(name), name)
        agents[key] = _under(built_in, agents.get(key, {}))
    merged["agents"] = agents
    return merged


def _under(built_in: Mapping[str, Any], own: Any) -> Any:
    if not isinstance(own, Mapping):
        return own
    # `strategy` has a second name, so the built-in one must not stand beside the user's under the other.
    hidden = {"strategy"} if "iteration_strategy" in own else set()
    return {**{key: value for key, value in built_in.items() if key not in hidden}, **own}
