"""The configuration file as a whole, as written.

Owns: the sections of the file and their merge over the built-in ones. Must not know: the resolved values.
Invariant: validation, the JSON schema and the error texts are all made from this one shape.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from registry.specs.agents import AgentEntry
from registry.specs.aigne import ForeignType
from registry.specs.builtin_agents import staff_of
from registry.specs.chains import ChainEntry
from registry.specs.context_files import ContextFilesEntry
from registry.specs.implied_models import implied_models
from registry.specs.limits import ServiceLimitOverrides
from registry.specs.models import BUILT_IN_MODEL, ModelEntry, RetryEntry
from registry.specs.secrets import SecretsEntry
from registry.specs.serve import ServeEntry
from registry.specs.telemetry import TelemetryEntry
from registry.specs.upstreams import UpstreamEntry
from registry.specs.users import ChatEntry, UserEntry
from registry.specs.work_items import WorkItemsEntry
from registry.specs.workspaces import WorkspaceEntry
from registry.text.entry import Entry, Line
from registry.text.names import STAND_IN, fold


class DefaultsEntry(Entry):
    """`defaults` as written: the settings of agents that give none."""

    model: Line | None = Field(default=None, description="model of agents that name none; absent: the only model")
    limits: ServiceLimitOverrides = Field(default=ServiceLimitOverrides(), description="limits of agents that set none")
    retry: RetryEntry | None = Field(default=None, description="how failed calls are retried, for all models")


class ForeignAgent(BaseModel):
    """An agent in another dialect: `registry/specs/aigne.py`."""

    model_config = ConfigDict(extra="allow")
    type: ForeignType = Field(description="its other keys are those of AIGNE's orchestrators")


Agents = Annotated[
    dict[str, AgentEntry],
    BeforeValidator(lambda value: value, json_schema_input_type=dict[str, AgentEntry | ForeignAgent] | tuple[Line, ...]),
]
"""When a document is made, agent files have been read and dialects translated."""


class Document(Entry):
    """The whole file."""

    model: Line | None = Field(default=None, description="same as `defaults.model`")
    defaults: DefaultsEntry = Field(default=DefaultsEntry(), description="settings of agents that give none")
    models: dict[str, ModelEntry] = Field(default={}, description="the models agents may name")
    mcp_servers: dict[str, UpstreamEntry] = Field(default={}, description="the servers whose tools agents may have")
    agents: Agents = Field(default={}, description="the agents, or the files with one agent each")
    agent_chains: dict[str, ChainEntry] = Field(default={}, description="stages of agents, in order")
    context_files: ContextFilesEntry = Field(
        default=ContextFilesEntry(), description="files shown to agents, by the level of their `context`"
    )
    workspaces: dict[str, WorkspaceEntry] = Field(default={}, description="folders in which agents work on files")
    users: dict[str, UserEntry] = Field(default={}, description="the users that agents work for")
    chat: ChatEntry | None = Field(default=None, description="who answers them")
    serve: ServeEntry = Field(default=ServeEntry(), description="what MCP clients are offered, and who may call")
    secrets: SecretsEntry = Field(default=SecretsEntry(), description="which variables and headers are not secret")
    work_items: WorkItemsEntry = Field(default=WorkItemsEntry(), description="work items, by number")
    telemetry: TelemetryEntry = Field(default=TelemetryEntry(), description="traces, sent to an OpenTelemetry receiver")

    @property
    def default_model(self) -> str | None:
        """Return the model of agents that name none, if the file sets one."""
        return self.defaults.model or self.model

    @model_validator(mode="after")
    def _one_default(self) -> Self:
        if self.model is not None and self.defaults.model not in (None, self.model):
            raise PydanticCustomError(
                "two_values",
                "`model` and `defaults.model` are one setting and have different values here",
                {"at": "model", "hint": "remove one of the two"},
            )
        return self


SECTIONS = tuple(key for key in Document.model_fields if key != "model")


def with_built_ins(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree merged over the built-in one: a user's agent replaces only the fields it gives.

    A user's agent with a description does not change a built-in agent without one: it is another agent of that name.
    """
    merged = dict(tree)
    if merged.get("models", {}) == {}:
        name, entry = BUILT_IN_MODEL
        merged["models"] = {name: entry}
    if isinstance(merged["models"], Mapping):
        merged["models"] = {**merged["models"], **implied_models(merged)}
    own = merged.get("agents", {})
    if not isinstance(own, Mapping):
        return merged
    agents = dict(own)
    own_names = {fold(name): name for name in agents}
    models = merged["models"] if isinstance(merged["models"], Mapping) else ()
    for name, built_in in staff_of(agents, merged.get("chat"), models).items():
        key = own_names.get(fold(name), name)
        if _is_another(agents.get(key), built_in):
            key = STAND_IN + name
        agents[key] = _under(built_in, agents.get(key, {}))
    merged["agents"] = agents
    return merged


def _is_another(own: Any, built_in: Mapping[str, Any]) -> bool:
    return isinstance(own, Mapping) and bool(own.get("description")) and "description" not in built_in


def _under(built_in: Mapping[str, Any], own: Any) -> Any:
    if not isinstance(own, Mapping):
        return own
    # `strategy` has a second name: the built-in value must not stand beside the user's under the other name.
    hidden = {"strategy"} if "iteration_strategy" in own else set()
    return {**{key: value for key, value in built_in.items() if key not in hidden}, **own}
