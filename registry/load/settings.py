"""Settings: a whole configuration, checked and frozen.

Owns: lookups by name, and the limits and catalogue of an agent at its place. Must not know: how a file is read.
Invariant: Settings have no problem and never change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from registry.load.effective import hash_of, rehearsed_text
from registry.load.reading import leaves
from registry.specs.agents import AgentSpec
from registry.specs.catalogue import CatalogueEntry, commanded_agents, offered_agents, resolve_catalogue, sub_agent_registry
from registry.specs.chains import ChainSpec, StagePlace
from registry.specs.context_files import ContextFiles
from registry.specs.limits import LimitOverrides, Limits, resolve_limits
from registry.specs.models import ModelSpec
from registry.specs.secrets import held_secrets
from registry.specs.serve import ServeSpec
from registry.specs.telemetry import TelemetrySpec
from registry.specs.upstreams import UpstreamSpec
from registry.specs.users import ChatSpec, UserSpec
from registry.specs.work_items import WorkItemsSpec
from registry.text.errors import UnknownName
from registry.text.locate import Located
from registry.text.names import Directory, nearest
from registry.text.variables import Expanded, built_in_variables, names_in, needed

_TOLD_TO_MODELS = frozenset({"agents", "agent_chains", "users"})
"""Sections whose texts models read: a variable used only there is not taken for a secret."""

Spec = TypeVar("Spec")
Filtered = TypeVar("Filtered", AgentSpec, UpstreamSpec)


@dataclass(frozen=True, slots=True)
class Defaults:
    """Settings of agents that give none, and of the service as a whole."""

    model: str
    limits: LimitOverrides
    max_concurrent_roots: int
    max_concurrent_model_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole configuration. Mappings are keyed by configured names, in their order.

    `snapshot` is the canonical text of the effective values, without secrets; `hash` is its SHA-256; `located` knows the
    lines.
    """

    models: Mapping[str, ModelSpec]
    upstreams: Mapping[str, UpstreamSpec]
    agents: Mapping[str, AgentSpec]
    chains: Mapping[str, ChainSpec]
    defaults: Defaults
    context_files: ContextFiles
    users: Mapping[str, UserSpec]
    chat: ChatSpec | None
    serve: ServeSpec
    source: Path
    snapshot: str
    hash: str
    located: Located = field(repr=False)
    rehearse: bool = False
    """Whether every model runs rehearsed, even with a key."""
    work_items: WorkItemsSpec = field(default_factory=WorkItemsSpec)
    telemetry: TelemetrySpec = field(default_factory=TelemetrySpec)
    plain: tuple[str, ...] = ()
    """Variables and headers that are declared not to be secret."""
    parts: tuple[Path, ...] = ()
    """Further files that it was read from: of agents and of texts."""

    def agent(self, name: str) -> AgentSpec:
        """Return the agent of that name, in any spelling."""
        return self._find("agent", ("agents",), name, self.agents)

    def chain(self, name: str) -> ChainSpec:
        """Return the chain of that name, in any spelling."""
        return self._find("chain", ("agent_chains",), name, self.chains)

    def model(self, name: str) -> ModelSpec:
        """Return the model of that name, in any spelling."""
        return self._find("model", ("models",), name, self.models)

    def model_of(self, agent: AgentSpec) -> ModelSpec:
        """Return the agent's model, with the agent's overrides."""
        spec = self.model(agent.model)
        if not agent.thinking and agent.max_tokens is None:
            return spec
        return replace(spec, thinking=spec.thinking or agent.thinking, max_tokens=agent.max_tokens or spec.max_tokens)

    def upstream(self, name: str) -> UpstreamSpec:
        """Return the server of that name, in any spelling."""
        return self._find("server", ("mcp_servers",), name, self.upstreams)

    def required_servers(self, agent: AgentSpec) -> tuple[str, ...]:
        """Return the servers that an agent needs: those marked `required`, and its only server."""
        alone = len(set(agent.mcp_servers)) == 1
        specs = [self.upstream(name) for name in dict.fromkeys(agent.mcp_servers)]
        return tuple(spec.name for spec in specs if (alone if spec.required is None else spec.required))

    def user(self, name: str) -> UserSpec:
        """Return the user of that id or alias, in any spelling."""
        known = {each: user for user in self.users.values() for each in (user.id, *user.aliases)}
        found = Directory(known).find(name)
        if found is None:
            raise UnknownName("user", name, self.users)
        return known[found]

    def agent_or_chain(self, name: str) -> AgentSpec | ChainSpec:
        """Return the agent or chain of that name; they share one namespace."""
        found = self.find(name)
        both: dict[str, AgentSpec | ChainSpec] = {**self.agents, **self.chains}
        return self._find("agent or chain", ("agents", "agent_chains"), name, both) if found is None else found

    def find(self, name: str) -> AgentSpec | ChainSpec | None:
        """Return the agent or chain of that name, or None."""
        if name in self.agents:  # no two agents or chains have names that differ in spelling only
            return self.agents[name]
        chain, agent = Directory(self.chains).find(name), Directory(self.agents).find(name)
        return self.chains[chain] if chain is not None else self.agents[agent] if agent is not None else None

    def chain_for_alert(self, alert_type: str) -> ChainSpec:
        """Return the one chain that this type of alert starts."""
        for chain in self.chains.values():
            if alert_type in chain.alert_types:
                return chain
        known = [each for chain in self.chains.values() for each in chain.alert_types]
        raise UnknownName("alert type", alert_type, known)

    def sub_agents(self) -> tuple[CatalogueEntry, ...]:
        """Return every agent that can be dispatched without a list."""
        return sub_agent_registry(self.agents.values())

    def offered(self) -> tuple[CatalogueEntry, ...]:
        """Return the agents MCP clients may dispatch, orchestrators included."""
        return offered_agents(self.agents, self.serve.agents)

    def catalogue(self, agent: AgentSpec, place: StagePlace | None = None) -> tuple[CatalogueEntry, ...]:
        """Return the agents that an agent may dispatch, at its place in a chain if it has one."""
        lists = () if place is None else (place.agent.sub_agents, place.stage.sub_agents, place.chain.sub_agents)
        return resolve_catalogue(self.agents, agent, *lists)

    def commanded(self, agent: AgentSpec) -> tuple[CatalogueEntry, ...]:
        """Return the agents that its commands may start."""
        return commanded_agents(self.agents, agent)

    def limits_for(self, agent: AgentSpec, place: StagePlace | None = None, call: LimitOverrides | None = None) -> Limits:
        """Return the limits of an execution of the agent; only an agent of a stage has a place."""
        layers = () if place is None else (place.chain.limits, place.stage.limits, place.agent.overrides.limits)
        return resolve_limits(self.defaults.limits, agent.limits, *layers, call)

    def limits_for_chain(self, chain: ChainSpec, call: LimitOverrides | None = None) -> Limits:
        """Return the limits of a chain's root execution."""
        return resolve_limits(self.defaults.limits, chain.limits, call)

    def stage_agent(self, place: StagePlace) -> AgentSpec:
        """Return the agent of a stage with the overrides of its place."""
        return self.agent(place.agent.name).overridden(place.agent.overrides)

    def variables(self) -> tuple[str, ...]:
        """Return the environment variables it reads: the keys of its models, then those without a default."""
        keys = (model.api_key_env for model in self.models.values())
        sources = (value.source for _, value in leaves(self.located.tree) if isinstance(value, Expanded))
        given = built_in_variables(self.source.parent)
        return tuple(dict.fromkeys([*keys, *(name for source in sources for name in needed(source) if name not in given)]))

    def secret_variables(self) -> frozenset[str]:
        """Return the names of the variables with a model's key or a caller's token."""
        keys = {model.api_key_env for model in self.models.values()}
        return frozenset(keys | {token.token_env for token in self.serve.http.tokens.values()})

    def secrets(self, environ: Mapping[str, str]) -> frozenset[str]:
        """Return every secret of a process with these settings and this environment."""
        sources = (
            value.source
            for path, value in leaves(self.located.tree)
            if isinstance(value, Expanded) and path[0] not in _TOLD_TO_MODELS
        )
        named = {name for source in sources for name in names_in(source)} - built_in_variables(self.source.parent).keys()
        return held_secrets(self.upstreams.values(), environ, self.secret_variables(), named, self.plain)

    def rehearsed(self) -> "Settings":
        """Return the same settings, rehearsed; the snapshot says so, and resumed executions stay rehearsed."""
        snapshot = rehearsed_text(self.snapshot)
        return replace(self, rehearse=True, snapshot=snapshot, hash=hash_of(snapshot))

    def denying(self, today: "Settings") -> "Settings":
        """Return these settings restricted by today's deny-lists and gates, for resumed executions."""
        agents = {name: _denied(agent, today.agents.get(name)) for name, agent in self.agents.items()}
        upstreams = {
            name: _gated(_denied(each, now), now)
            for name, each in self.upstreams.items()
            for now in [today.upstreams.get(name)]
        }
        return replace(self, agents=MappingProxyType(agents), upstreams=MappingProxyType(upstreams))

    def defined_at(self, *path: str | int) -> str:
        """Return the line of a path such as `"agents", "LogAnalyzer"`, as `config.yaml:14`; empty if it is not defined."""
        position = self.located.keys.get(path) or self.located.values.get(path)
        return f"{position.file or self.source.name}:{position.line}" if position else ""

    def _find(self, kind: str, sections: tuple[str, ...], name: str, known: Mapping[str, Spec]) -> Spec:
        if name in known:
            return known[name]
        found = Directory(known).find(name)
        if found is not None:
            return known[found]
        near = nearest(name, known)
        places = [self.defined_at(section, near) for section in sections] if near else []
        raise UnknownName(kind, name, known, "".join(places))


def _gated(then: UpstreamSpec, today: UpstreamSpec | None) -> UpstreamSpec:
    return then if today is None else replace(then, imposed_gates=today.gates)


def _denied(then: Filtered, today: Filtered | None) -> Filtered:
    denied: tuple[str, ...] = today.tools.deny if today is not None else ()
    return replace(then, tools=replace(then.tools, deny=(*then.tools.deny, *denied)))
